#!/bin/sh
# Fetches Debian's PgBouncer and its libraries into a folder, without root; nothing is installed. Elsewhere the test skips, and says so.
set -eu
folder=$1
if [ -x "$folder/usr/sbin/pgbouncer" ] || ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
	exit 0
fi
packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT
# libc6 and what depends on it alone is there wherever Debian's own python3 runs.
(cd "$packages" && apt-get download --quiet pgbouncer libc-ares2 libevent-2.1-7 libsystemd0 libpam0g) || {
	echo "pgbouncer could not be fetched: its test is skipped" >&2
	exit 0
}
for package in "$packages"/*.deb; do
	dpkg -x "$package" "$folder"
done
