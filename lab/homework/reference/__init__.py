"""The homework, solved: plain files, from which what a student gets is cut."""
