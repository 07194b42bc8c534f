"""Lower bounds: what games with canaries prove that a defense gives away."""
