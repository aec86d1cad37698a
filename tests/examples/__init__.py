"""The examples do what their pages say."""
