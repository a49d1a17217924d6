"""Crawls of web sites into collections: frontier, politeness, canonical URLs, sitemaps."""

from penstock.knowledge.crawl.crawl import (
    CRAWL,
    Crawl,
    CrawlPage,
    CrawlState,
    PageState,
    begin_crawl,
    explain_crawl,
    list_crawl_pages,
    list_crawls,
    show_crawl,
    stop_crawl,
    sweep_crawls,
    tell_counts,
)
from penstock.knowledge.crawl.frontier import (
    CrawlWork,
    PageResult,
    PageWork,
    close_round,
    end_crawl,
    first_page,
    load_crawl,
    load_page,
    open_round,
    pages_of_round,
    progress_of,
    settle_with,
    settle_without,
)
from penstock.knowledge.crawl.page import CrawledPage, Site, page_name, read_page
from penstock.knowledge.crawl.politeness import FRESH_FOR, Politeness, RobotsRules, parted
from penstock.knowledge.crawl.sitemap import Sitemaps
from penstock.knowledge.crawl.urls import NoPage, canonical, host_of, origin_of
