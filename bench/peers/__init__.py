"""Other queues, each used as its documentation says and imported only when its turn comes."""
