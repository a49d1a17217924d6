"""Conversion of documents to PDF, and the merge of several PDFs into one."""
