"""What helper and recorder say to each other: typed messages, one encoder, one strict decoder."""
