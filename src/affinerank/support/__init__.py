"""What every room uses: errors, files, arrays, settings, tables of rows."""
