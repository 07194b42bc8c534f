"""`python -m foltr_audit` is `foltr-audit`."""

import sys

from foltr_audit.cli.main import main

sys.exit(main())
