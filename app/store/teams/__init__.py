"""Teams, their keys and the limits of these, and stored credentials, as the admin API and commands change them."""
