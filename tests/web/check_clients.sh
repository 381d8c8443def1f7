#!/bin/sh
# Runs check_clients.py in its own Python environment, BUILD/clients, where pip installs requirements.txt.
# usage: check_clients.sh BUILD [ARGUMENT...]     Without pip or a package registry, prints a message and exits with 0.
build=$1
shift
folder=$(dirname "$0")
python=$build/clients/bin/python
export PYTHONDONTWRITEBYTECODE=1
export PIP_DISABLE_PIP_VERSION_CHECK=1
# A complete environment is used again, so that a second run needs no network.
if ! cmp -s "$folder/requirements.txt" "$build/clients/installed"; then
    rm -rf "$build/clients"
    if ! python3 -m venv "$build/clients" > "$build/clients.log" 2>&1; then
        echo "check-clients: skipped: python3 -m venv does not work here (the package python3-venv): $build/clients.log"
        exit 0
    fi
    if ! "$python" -m pip install -q --retries 1 --timeout 30 -r "$folder/requirements.txt" >> "$build/clients.log" 2>&1; then
        echo "check-clients: skipped: pip does not get $(tr '\n' ' ' < "$folder/requirements.txt"): $build/clients.log"
        exit 0
    fi
    cp "$folder/requirements.txt" "$build/clients/installed"
fi
exec "$python" "$folder/check_clients.py" "$build/dopplergl" "$@"
