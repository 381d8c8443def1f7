# Link flags of single tests (link-time fakes).
