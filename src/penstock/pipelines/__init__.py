"""The product's own kinds of jobs, from an accepted document to a searchable one."""

from penstock.pipelines.product import Product

__all__ = ["Product"]
