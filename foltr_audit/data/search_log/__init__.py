"""Search logs of users: who searched what when, and clicked on which document."""
