#!/bin/sh
# Runs check_clients.py and check_forms.py, each in a Python environment of its own (BUILD/clients, BUILD/forms), where pip
# installs requirements.txt and requirements_forms.txt: these clients need different versions of openai.
# usage: check_clients.sh BUILD [ARGUMENT...]     Without pip or a package registry, prints a message and exits with 0.
# Arguments that begin with forms_ are cases of check_forms.py; others go to check_clients.py. Without cases, both run.
build=$1
shift
folder=$(dirname "$0")
export PYTHONDONTWRITEBYTECODE=1
export PIP_DISABLE_PIP_VERSION_CHECK=1

# install NAME REQUIREMENTS: a complete environment is used again, so that a second run needs no network.
install() {
    if cmp -s "$2" "$build/$1/installed"; then
        return 0
    fi
    rm -rf "${build:?}/$1"
    if ! python3 -m venv "$build/$1" > "$build/$1.log" 2>&1; then
        echo "check-clients: skipped: python3 -m venv does not work here (the package python3-venv): $build/$1.log"
        return 1
    fi
    if ! "$build/$1/bin/python" -m pip install -q --retries 1 --timeout 30 -r "$2" >> "$build/$1.log" 2>&1; then
        echo "check-clients: skipped: pip does not get $(tr '\n' ' ' < "$2"): $build/$1.log"
        return 1
    fi
    cp "$2" "$build/$1/installed"
}

status=0
case " $*" in
" forms_"*) ;;
*)
    if install clients "$folder/requirements.txt"; then
        "$build/clients/bin/python" "$folder/check_clients.py" "$build/dopplergl" "$@" || status=1
    fi
    ;;
esac
case " $*" in
" " | " forms_"*)
    if install forms "$folder/requirements_forms.txt"; then
        "$build/forms/bin/python" "$folder/check_forms.py" "$build/dopplergl" "$@" || status=1
    fi
    ;;
esac
exit $status
