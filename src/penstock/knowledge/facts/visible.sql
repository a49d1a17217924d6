-- The facts that can be found: those of the current extraction of a live version.

-- name: visible
join penstock.extractions as extraction on extraction.id = fact.extraction_id and extraction.state = 'current'
join penstock.documents as document on document.id = extraction.document_id and document.live_id = fact.version_id
