"""Knowledge: web sites are crawled into collections, and facts are extracted from the text of documents.

The files in the order in which the work passes through them. A crawl:

    crawl/crawl.py       start a crawl with its job; list, show, stop and explain it
    crawl/urls.py        the canonical form of a URL
    crawl/politeness.py  robots.txt, and the next time at which a host may be requested
    crawl/page.py        a page after a sandbox has read it; crawl/sitemap.py: the pages that a site lists itself
    crawl/frontier.py    known pages, rounds, and the outcome of each page

The facts of a version:

    facts/config.py      the extraction configuration and the prompt; facts/windows.py: the parts of the text that are read
    facts/runs.py        answers, and extractions that are staged, current or old
    facts/validate.py    an answer against the text; facts/entities.py: one row for all spellings of a name
    facts/facts.py       facts as they are written, shown and searched

The jobs are in pipelines/crawl.py and pipelines/facts.py.
"""
