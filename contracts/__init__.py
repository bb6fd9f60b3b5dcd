"""What crosses a border: errors, units, windows, envelopes, evidence. No I/O and no SQL in here."""
