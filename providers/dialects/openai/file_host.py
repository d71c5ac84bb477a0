"""Where uploaded files live, for chat and Responses alike."""

# The origin of an Uploaded source whose `file_id` chat and Responses understand.
FILE_HOST = "openai"
