"""Letters of many kinds for texts that Hypothesis draws.

`st.text()` would make a table of all of Unicode first, which takes seconds in a fresh checkout.
"""

import string

LETTERS = string.printable + (
    "\0\x1b\x7f\x85\xa0\xad\u00e9\u00df\u0130\u0301\u03a9\u0416\u05d0\u0627\u0939\u200b\u200d\u2028\u3042\u65e5\uac00"
    "\ufeff\uffff\U0001d4d0\U0001f600\U000e0001\U0010ffff"
)
