"""Imitations of what lives on the internet: model providers. Nothing of this machine is imitated."""
