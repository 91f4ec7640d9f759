"""Building blocks of methods: positives, augmentations, views and diffusion."""
