"""The host of uploaded files, which is the same for chat and Responses."""

# The origin of an Uploaded source whose `file_id` chat and Responses understand.
FILE_HOST = "openai"
