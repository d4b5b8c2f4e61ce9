"""What a collection is: keys, walks, indices, batch operations, locks, names, payloads, planned writes."""
