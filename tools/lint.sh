#!/bin/sh
# Checks beyond the compiler's: formatting, long functions, arrows between rooms, forbidden calls, missing comments, the map
# of the code.
# Prints the shape of each room, doubtful words in the comments of changed lines, then one line per violation, and exits with
# 1 if there is any violation.
# usage: lint.sh [BUILD]. Checks the files in the tree, built or not. The symbols of a file are checked only if its
# object in BUILD (build) is newer than the file. LINT_BASE is the commit that lines are compared with. By default it is
# HEAD, or its parent if the tree is equal to HEAD.
LC_ALL=C
export LC_ALL
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
found=$work/found
build=${1:-build}
: > "$found"

c_files=$(find core gl kernels loader tools tests -name '*.[ch]' | sort)
shaders=$(find kernels -name '*.comp' -o -name '*.glsl' | sort)
scripts=$(find tests tools .ci -name '*.sh' -o -path '.ci/run' | sort)

# Version 14 (Debian 12) is required; others format a few constructs differently.
format=clang-format
command -v clang-format-14 > /dev/null 2>&1 && format=clang-format-14
if command -v $format > /dev/null 2>&1; then
    # shellcheck disable=SC2086
    $format --dry-run -Werror $c_files 2>&1 |
        sed -n 's/^\([^:]*:[0-9]*\):[0-9]*: error: code should be clang-formatted.*/\1: not as clang-format has it/p' |
        sort -u -t: -k1,1 >> "$found"
else
    echo 'tools/lint.sh: clang-format is not installed: make deps' >> "$found"
fi

# A function body is between "{" and "}" in the first column. Long kernels are reported, long functions are refused.
: > "$work/long"
# shellcheck disable=SC2086
awk -v long="$work/long" '
    function close_file() {
        if (file ~ /\.(comp|glsl)$/ && lines > 300) printf "%s: %d lines, long for a kernel\n", file, lines > long
    }
    FNR == 1 {
        close_file(); file = FILENAME; start = 0
        if ($0 !~ /^(\/\*|\/\/)/) print file ":1: does not begin with a comment that says its duty"
    }
    {
        lines = FNR
        text = $0
        gsub(/[\200-\277]/, "", text) # continuation bytes take no column
        if (length(text) > 100) printf "%s:%d: %d columns, at most 100\n", file, FNR, length(text)
        if ($0 ~ /[ \t]$/) printf "%s:%d: blanks at the end\n", file, FNR
        if ($0 ~ /(TODO|FIXME|(^|[^X])XXX([^X]|$))/) printf "%s:%d: unfinished business\n", file, FNR
    }
    /^{$/ && file ~ /\.[ch]$/ { start = FNR }
    /^}$/ && start {
        if (FNR - start - 1 > 120)
            printf "%s:%d: a function of %d lines, at most 120\n", file, start, FNR - start - 1
        start = 0
    }
    END { close_file() }
' $c_files $shaders >> "$found"

# A tuner could vary the numbers of work groups, invocations and bytes of shared memory, so kernels must not fix them.
# LOCAL must not contain a number. GROUPS, SHARED, and a LET that is only a number must not contain one of 16 or more,
# unless a remark explains why it is fixed. In bodies a literal must not be a stride of work.
# shellcheck disable=SC2086
awk '
    function largest(text,    most, number) {
        gsub(/[A-Za-z_][A-Za-z_0-9]*/, "x", text)
        while (match(text, /[0-9]+/)) {
            number = substr(text, RSTART, RLENGTH) + 0
            if (number > most) most = number
            text = substr(text, RSTART + RLENGTH)
        }
        return most + 0
    }
    /^\/\/! (LOCAL|GROUPS|SHARED|LET) / {
        value = substr($0, 5); remark = ""
        at = index(value, "//")
        if (at) { remark = substr(value, at); value = substr(value, 1, at - 1) }
        word = value; sub(/ .*/, "", word); sub(/^[A-Z]+ /, "", value)
        if (remark ~ /^\/\/ fixed: ./) next
        if (word == "LET" && value !~ /= *[0-9]+ *$/) next
        if (largest(value) >= (word == "LOCAL" ? 1 : 16))
            printf "%s:%d: %s %s: a TUNE, or `// fixed: WHY`\n", FILENAME, FNR, word, value
    }
    /^[^\/].*\+= *[0-9]+u?\)/ {
        step = $0
        sub(/.*\+= */, "", step); sub(/u?\).*/, "", step)
        if (step + 0 >= 16 && $0 !~ /\/\/ fixed: ./)
            printf "%s:%d: a stride of %d: a TUNE, or `// fixed: WHY`\n", FILENAME, FNR, step
    }
' $shaders >> "$found"

# Writes the code without comments and string contents, one "file:line:text" per line.
# shellcheck disable=SC2086
awk '
    FNR == 1 { inside = 0 }
    {
        text = $0
        if (text !~ /^[ \t]*#[ \t]*include/) gsub(/"([^"\\]|\\.)*"/, "\"\"", text)
        out = ""
        while (text != "") {
            if (inside) {
                at = index(text, "*/")
                if (!at) { text = ""; break }
                text = substr(text, at + 2); inside = 0
            } else {
                at = index(text, "/*")
                slashes = index(text, "//")
                if (slashes && (!at || slashes < at)) { out = out substr(text, 1, slashes - 1); break }
                if (!at) { out = out text; break }
                out = out substr(text, 1, at - 1); text = substr(text, at + 2); inside = 1
            }
        }
        if (out ~ /[^ \t]/) print FILENAME ":" FNR ":" out
    }
' $c_files > "$work/code"

# Files and functions named in the maps of the code must exist. With /dev/null as an argument, grep prints file names.
maps=$(find docs/architecture.md docs/where-to-look.md 2> /dev/null)
find ./* -type f ! -path './build/*' > "$work/files"
# shellcheck disable=SC2086
grep -oE '[A-Za-z0-9_/.-]+\.(c|h|comp|glsl|sh|py|html|md)([^A-Za-z0-9]|$)' /dev/null $maps | sed -E 's/[^A-Za-z0-9]$//' |
    sort -u | awk -F: '
        NR == FNR {
            n = split($0, part, "/")
            for (i = n; i > 1; i--) { tail = i == n ? part[i] : part[i] "/" tail; known[tail] = 1 }
            next
        }
        !($2 in known) { print $1 ":1: there is no file " $2 }
    ' "$work/files" - >> "$found"
# shellcheck disable=SC2086
grep -ohE '\<[a-z_0-9]+\(' $c_files $shaders | sort -u > "$work/functions"
# shellcheck disable=SC2086
grep -oE '`[a-z_0-9]+\(\)`' /dev/null $maps | tr -d '`' | sed 's/)$//' | sort -u | awk -F: '
    FILENAME == ARGV[1] { known[$0] = 1; next }
    !($2 in known) { print $1 ":1: there is no function " $2 ")" }
' "$work/functions" - >> "$found"

# Arrows of docs/architecture.md: the rooms that a room may use, by #include and by symbols. There are two levels: ROOM,
# and ROOM/ROOM inside of core, kernels, loader and tools. A header directly in core/ or kernels/ is the shared
# vocabulary of that room. `core` allows core/dopplergl.h, whose functions only tools may call. `kernels` allows
# kernels/kernels.h with its functions.
cat > "$work/arrows" << 'END'
core/base       core
gl              core core/base
kernels         core core/base
kernels/format  core core/base kernels
kernels/set     core core/base kernels kernels/format
kernels/gen     core core/base kernels kernels/format kernels/set
loader/text     core core/base
loader/quant    core core/base
loader/regex    core core/base loader/text
loader/jinja    core core/base loader/text
loader/grammar  core core/base loader/text
loader/source   core core/base
loader/tensor   core core/base loader/quant
loader/hf       core core/base loader/source loader/quant loader/tensor
loader/desc     core core/base loader/quant loader/tensor
loader/tokenizer core core/base loader/text loader/regex
loader/gguf     core core/base loader/source loader/quant loader/tensor loader/desc loader/tokenizer
loader/rdrr     core core/base loader/source loader/quant loader/tensor
loader/model    core core/base loader/source loader/quant loader/tensor loader/hf loader/desc loader/tokenizer loader/gguf loader/rdrr
loader/chat     core core/base loader/text loader/jinja loader/tokenizer loader/model
loader/convert  core core/base loader/source loader/quant loader/tensor loader/desc loader/tokenizer loader/gguf loader/rdrr loader/model
core/plan       core core/base kernels loader/desc loader/quant loader/tensor
core/memory     core core/base kernels loader/* gl core/plan
core/exec       core core/base kernels loader/* gl core/plan core/memory
core/oracle     core core/base kernels kernels/* loader/* gl core/plan core/memory
core/model      core core/base kernels loader/* gl core/plan core/memory core/exec core/oracle
core/text       core core/base loader/*
core/seq        core core/base kernels loader/* gl core/plan core/memory core/exec core/model core/text
core/sched      core core/base kernels loader/* gl core/plan core/memory core/exec core/model core/text core/seq
core/measure    core core/base kernels loader/* gl core/plan core/memory core/exec core/oracle core/model core/seq core/sched
core/api        core core/base kernels loader/* gl core/*
tools/cli       core core/base core/api
tools/watch     core core/base core/api tools/cli
tools/bench     core core/base core/api tools/cli
tools/chat      core core/base core/api tools/cli tools/watch
tools/serve     core core/base core/api tools/cli tools/watch
tools/commands  core core/base core/api tools/cli tools/watch tools/bench tools/chat tools/serve
tools/examples  core
END
# Files that will move to another room. Their arrows are checked as if they were already there.
cat > "$work/moves" << 'END'
core/seq/batch           core/sched
core/seq/batch_pages     core/sched
END
# Writes the symbols of objects that are newer than their sources: "FILE NAME TYPE".
stale=0
for file in $c_files; do
    case $file in tests/* | tools/examples/* | *.h) continue ;; esac
    object=$build/obj/${file%.c}.o
    if [ "$object" -nt "$file" ]; then
        echo "$object"
    else
        stale=$((stale + 1))
    fi
done > "$work/objects"
if [ -s "$work/objects" ]; then
    tr '\n' '\0' < "$work/objects" | xargs -0 nm -A -P -g 2> /dev/null | sed "s|^$build/obj/||; s|\.o: |.c |"
fi > "$work/symbols"
# shellcheck disable=SC2016
arrows='
    function room(path,    part, n) {
        n = split(path, part, "/")
        sub(/\.[ch]$/, "", path)
        if (path in moves) return moves[path]
        if (n > 2 && part[1] ~ /^(core|kernels|loader|tools)$/) return part[1] "/" part[2]
        return part[1]
    }
    function allowed(from, to,    any) {
        any = to; sub(/\/.*/, "/*", any)
        return from == to || (from, to) in may || ((from, any) in may && any ~ /\*/)
    }
    FILENAME ~ /arrows$/ {
        rooms[$1] = 1
        for (i = 2; i <= NF; i++) may[$1, $i] = 1
        next
    }
    FILENAME ~ /moves$/ { moves[$1] = $2; next }
'
awk "$arrows"'
    FILENAME ~ /code$/ && /^core\/dopplergl\.h:/ {
        for (text = $0; match(text, /dgl_[a-z_0-9]+\(/); text = substr(text, RSTART + RLENGTH))
            public[substr(text, RSTART, RLENGTH - 1)] = 1
    }
    FILENAME ~ /code$/ && /:#[ \t]*include/ {
        split($0, part, ":")
        file = part[1]; from = room(file)
        if (from == "tests") next
        name = $0
        sub(/.*include[ \t]*["<]/, "", name); sub(/[">].*/, "", name)
        if ($0 ~ /include[ \t]*"/) {
            to = room(name)
            if (from == "core" || !(from in rooms)) {
                printf "%s:%s: %s is no room that may include\n", file, part[2], from
            } else if (!allowed(from, to)) {
                printf "%s:%s: %s may not include %s\n", file, part[2], from, name
            } else if (from != to)
                uses[from] = uses[from] " " to
        } else if (name ~ /^(core|gl|kernels|loader|tools|tests)\//) {
            printf "%s:%s: our own header %s is included as \"%s\"\n", file, part[2], name, name
        } else if (name ~ /^(EGL|GLES|GLES2|GLES3|KHR|vulkan)\// || name ~ /^(gbm|xf86drm|xf86drmMode)\.h$/ || name ~ /drm/) {
            if (from != "gl") printf "%s:%s: only gl/ may include <%s>\n", file, part[2], name
        } else if (name ~ /cJSON\.h$/ && file != "core/base/json.c")
            printf "%s:%s: only core/base/json.c may include <%s>\n", file, part[2], name
    }
    # The symbols file is read twice: first for definitions, then for uses.
    FILENAME ~ /symbols$/ && ++seen[FILENAME, $1, $2, $3] == 1 {
        if ($3 != "U") defined[$2] = $1
        else { user[++wanted] = $1; symbol[wanted] = $2 }
    }
    # Remove rooms that use no remaining room, repeatedly. If rooms remain, they form a cycle.
    END {
        for (i = 1; i <= wanted; i++) {
            if (!(symbol[i] in defined)) continue
            # The table of commands names the functions of all commands.
            if (user[i] == "tools/cli/commands.c" && symbol[i] ~ /^command_/) continue
            from = room(user[i]); to = room(defined[symbol[i]])
            if (from ~ /^tools\// && symbol[i] in public) to = "core/api" # wherever it is defined
            if (to ~ /^kernels\// && from !~ /^kernels\// && (from, "kernels") in may) to = "kernels"
            if (!allowed(from, to)) {
                printf "%s:1: %s may not use %s of %s\n", user[i], from, symbol[i], defined[symbol[i]]
            } else if (from != to)
                uses[from] = uses[from] " " to
        }
        do {
            left = 0; gone = 0
            for (from in uses) {
                held = 0
                n = split(uses[from], used, " ")
                for (i = 1; i <= n; i++) held += used[i] in uses
                if (held) left++
                else { delete uses[from]; gone++ }
            }
        } while (gone)
        for (from in uses) printf "%s: the room is part of a cycle of includes or symbols\n", from
    }
' "$work/arrows" "$work/moves" "$work/code" "$work/symbols" >> "$found"

# Each tag has one definition: two headers that define the same tag could not be included together.
awk -F: '
    $1 ~ /\.h$/ {
        text = $0; sub(/^[^:]*:[^:]*:/, "", text)
        while (match(text, /(struct|enum|union) [A-Za-z_0-9]+ *\{/)) {
            tag = substr(text, RSTART, RLENGTH); sub(/ *\{/, "", tag)
            text = substr(text, RSTART + RLENGTH)
            if (tag in header && header[tag] != $1 && tag != "struct engine") # of core/exec and tools/cli
                printf "%s:%s: %s is defined in %s, too\n", $1, $2, tag, header[tag]
            header[tag] = $1
        }
    }
' "$work/code" >> "$found"

# Words to avoid in the comments and documents of changed lines. They are reported, but are not violations.
base=${LINT_BASE:-HEAD}
if [ -z "$LINT_BASE" ] && git diff --quiet HEAD 2> /dev/null; then
    base=HEAD~1
fi
git diff -U0 --no-color --no-ext-diff "$base" 2> /dev/null | awk '
    /^\+\+\+ / { file = substr($0, 7); next }
    /^@@/ { split($3, at, ","); line = at[1] + 0; next }
    /^\+/ {
        text = substr($0, 2)
        comment = ""
        if (file ~ /\.(c|h|comp|glsl)$/) {
            if (match(text, /\/[*\/] ?/)) { comment = substr(text, RSTART + RLENGTH); begins = 1 }
            else if (text ~ /^ *\* /) { comment = text; sub(/^ *\* /, "", comment); begins = 0 }
        } else if (file ~ /(\.(sh|py|mk)|Makefile)$/) {
            if (match(text, /# /)) { comment = substr(text, RSTART + 2); begins = 1 }
        } else if (file ~ /\.md$/) {
            comment = text
            begins = 1
        }
        padded = " " tolower(comment) " "
        n = split("in any case;nobody;behind;beside;whoever;goes by;comes to;is made of;is asked for;is told;any more;no more;one below", word, ";")
        for (i = 1; i <= n; i++)
            if (padded ~ "[^a-z]" word[i] "[^a-z]") printf "%s:%d: word to avoid: %s\n", file, line, word[i]
        if ((begins && match(comment, /^(What|Which|Whether|Of an?) /)) || match(comment, /[.:] (What|Which|Whether|Of an?) /)) {
            start = substr(comment, RSTART, RLENGTH); sub(/^[.:] /, "", start)
            printf "%s:%d: begins without its subject: %s\n", file, line, start
        }
        line++
    }
' > "$work/words"

# Functions that can overrun a buffer are forbidden. The library must not exit, print or change the state of the
# process. gl_compiler_main.c may, because it is the main function of a separate process, and log_stderr.c may print.
grep -v '^tests/' "$work/code" |
    grep -E '[^A-Za-z0-9_](strcpy|strcat|sprintf|vsprintf|gets|atoi|atol|atoll|atof|strtok|alloca|system|popen|tmpnam|mktemp)[ ]*\(' |
    sed 's/^\([^:]*:[0-9]*\):.*[^A-Za-z0-9_]\(strcpy\|strcat\|v*sprintf\|gets\|ato[a-z]*\|strtok\|alloca\|system\|popen\|tmpnam\|mktemp\)[ ]*(.*/\1: \2() is forbidden/' >> "$found"
grep -v -E '^(tests/|tools/|gl/gl_compiler_main[.]c:|core/base/log_stderr[.]c:)' "$work/code" |
    grep -E '[^A-Za-z0-9_](exit|_exit|abort|printf|vprintf|puts|putchar|perror|setlocale|signal|sigaction|setenv|putenv|srand|rand)[ ]*\(|[^A-Za-z0-9_](stdout|stderr)[^A-Za-z0-9_]' |
    sed 's/^\([^:]*:[0-9]*\):.*/\1: the library may not exit, print or change the process/' >> "$found"

# Only gl/gl_sync.c may call GL functions that flush or wait, because it counts these calls.
grep '^gl/' "$work/code" | grep -v '^gl/gl_sync\.c:' |
    sed -n 's/^\([^:]*:[0-9]*\):.*\(gl\(Flush\|Finish\|WaitSync\|ClientWaitSync\)\)[ ]*(.*/\1: only gl\/gl_sync.c may call \2()/p' >> "$found"

# Status variables have one name. Includes have one order: a file's own header, <system>, "ours".
grep -E 'enum dgl_status \**st[^a-z_]' "$work/code" | sed 's/^\([^:]*:[0-9]*\):.*/\1: a status is called `status`/' >> "$found"
awk -F: '
    $3 !~ /^#[ \t]*include/ { if (file != $1) { file = $1; ours = 0; done = 0 } if (ours) done = 1; next }
    file != $1 { file = $1; ours = 0; done = 0 }
    done { next }
    /include[ \t]*"/ { ours++ }
    /include[ \t]*</ && ours > 1 && $0 !~ /<(GLES|EGL)/ {
        printf "%s:%s: <system> headers come before ours\n", $1, $2
    }
' "$work/code" | grep -v '^tests/' >> "$found"

# Public header: each paragraph of declarations begins with a comment.
awk '
    /^$/ { told = 0 }
    /\*\// { told = 1; next }
    /^[a-z].*\(/ && !/^(typedef|struct [a-z_]* *\{)/ && !told {
        printf "%s:%d: declared without a comment above: %s\n", FILENAME, FNR, $0
    }
' core/dopplergl.h >> "$found"

for script in $scripts; do
    sed -n '2p' "$script" | grep -q '^# ' || echo "$script:2: does not begin with a comment that says its duty"
done >> "$found"

# Shape: numbers without limits. A static function has one caller if its name is used exactly once in its file, outside
# of its own body, and that use is a call.
grep -v '^tests/' "$work/code" | grep '^[^:]*\.c:' | awk '
    function room(path,    part, n) {
        n = split(path, part, "/")
        return n > 2 ? part[1] "/" part[2] : part[1]
    }
    function add(where) {
        files[where]++
        file_lines[where, last]++
        if (last > longest_file[where]) longest_file[where] = last
        code[where] += code_lines
        for (f in body) {
            functions[where]++
            lengths[where, body[f]]++
            if (body[f] > longest[where]) longest[where] = body[f]
            if (!(f in is_static)) continue
            statics[where]++
            if (uses[f] != 1 || calls[f] != 1) continue
            single[where]++
            if (body[f] <= 12) short[where]++
        }
    }
    function close_file() {
        if (file != "") { add(room(file)); add("all") }
        split("", body); split("", is_static); split("", uses); split("", calls)
        inside = ""; head = ""; code_lines = 0
    }
    function percentile(table, where, count, top, share,    n, seen) {
        for (n = 0; n < top; n++) {
            seen += table[where, n]
            if (seen >= share * count) return n
        }
        return top
    }
    function percent(part, whole) { return whole ? int(100 * part / whole + 0.5) : 0 }
    # Collect uses of names. Outside of functions "name(" is a declaration or definition.
    function count_names(text, in_body,    name, call) {
        while (match(text, /[A-Za-z_][A-Za-z0-9_]*/)) {
            name = substr(text, RSTART, RLENGTH)
            text = substr(text, RSTART + RLENGTH)
            call = text ~ /^[ ]*\(/
            if (name == inside || (call && !in_body)) continue
            uses[name]++
            calls[name] += call
        }
    }
    {
        at = index($0, ":"); path = substr($0, 1, at - 1); text = substr($0, at + 1)
        at = index(text, ":"); line = substr(text, 1, at - 1) + 0; text = substr(text, at + 1)
        if (path != file) { close_file(); file = path }
        last = line
        code_lines++
        if (text == "{") {
            if (match(head, /[A-Za-z_][A-Za-z0-9_]*\(/)) {
                inside = substr(head, RSTART, RLENGTH - 1)
                start = line
                if (head ~ /^static /) is_static[inside] = 1
            }
        } else if (text == "}" && inside != "") {
            body[inside] = line - start - 1
            inside = ""; head = ""
        } else {
            count_names(text, inside != "" || text ~ /^[ ]*#/)
            if (inside == "") head = text ~ /[;}#]/ ? "" : head (head == "" ? "" : " ") text
        }
    }
    END {
        close_file()
        for (where in files)
            printf "%-17s %5d %5d %5d   %5d %9d   %3d %3d %3d   %7s %10s %5s\n", where, files[where],
                   percentile(file_lines, where, files[where], longest_file[where], 0.5), longest_file[where],
                   code[where], functions[where] + 0, percentile(lengths, where, functions[where], longest[where], 0.5),
                   percentile(lengths, where, functions[where], longest[where], 0.9), longest[where] + 0,
                   sprintf("%.1f", code[where] ? 100 * functions[where] / code[where] : 0),
                   percent(single[where], statics[where]) "%", percent(short[where], statics[where]) "%"
    }
' | sort > "$work/shape"
echo '                  files   p50   max    code functions   p50 p90 max   per 100 one caller short'
cat "$work/shape"
echo 'p50, p90, max: lines; per 100: functions in 100 lines of code; one caller: share of static functions that one call'
echo 'in their file uses; short: share of static functions that do so with 12 lines or fewer'
cat "$work/long"
head -40 "$work/words"
words=$(wc -l < "$work/words")
[ "$words" -le 40 ] || echo "... and $((words - 40)) more words to avoid"
[ "$stale" -eq 0 ] || echo "symbols of $stale files were not checked: make them first (no object that is newer in $build)"
sort -t: -k1,1 -k2,2n "$found"
count=$(wc -l < "$found")
echo "lint: $count violations"
[ "$count" -eq 0 ]
