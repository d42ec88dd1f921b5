"""The dialogs: one file for each thing that can be added or changed.

Forms may have sections; what is stored is flat (see ``schemas.flatten``).
"""
