"""Anthropic's Messages as Amazon Bedrock and Vertex AI have them: for Claude Code and SDKs that are set to one of these clouds."""
