-- Which facts can be found, in one place: those of the current extraction of a document whose version is the one that search sees.

-- name: visible
join penstock.extractions as extraction on extraction.id = fact.extraction_id and extraction.state = 'current'
join penstock.documents as document on document.id = extraction.document_id and document.live_id = fact.version_id
