#!/usr/bin/env python3
"""Sizes and offsets of the structs that cross the module ABI, as the compiler sees them.

layout.py INCLUDE_FOLDER prints them as JSON: {struct: {"size": n, "members": {name: [offset, size]}}}.
"""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

COMPILER = shlex.split(os.environ.get("CC", "cc"))
HEADERS = ["types.h", "values.h", "messages.h", "module.h"]


def structs(include):
    """{struct name: its member names}, from the preprocessed headers."""
    source = "".join(f"#include <lmcached/{name}>\n" for name in HEADERS)
    done = subprocess.run(
        [*COMPILER, "-E", "-P", f"-I{include}", "-x", "c", "-"], input=source, capture_output=True, text=True, check=True
    )
    found = {}
    for body, name in re.findall(r"typedef struct \w+ \{([^{}]*)\} (lmc_\w+);", done.stdout):
        members = []
        for declaration in body.split(";"):
            pointer = re.search(r"\(\*\s*(\w+)\)\s*\(", declaration)
            if pointer:
                members.append(pointer.group(1))
                continue
            for part in declaration.split(","):
                word = re.search(r"(\w+)\s*(\[[^\]]*\])?\s*$", part.strip())
                if word:
                    members.append(word.group(1))
        found[name] = members
    return found


def layout(include):
    found = structs(include)
    lines = ["#include <stdio.h>", "#include <stddef.h>", *(f"#include <lmcached/{name}>" for name in HEADERS)]
    lines += ["int main(void) {", 'printf("{");']
    for i, (name, members) in enumerate(found.items()):
        lines.append(f'printf("%s\\"{name}\\": {{\\"size\\": %zu, \\"members\\": {{", "{", " if i else ""}", sizeof({name}));')
        for k, member in enumerate(members):
            lines.append(
                f'printf("%s\\"{member}\\": [%zu, %zu]", "{", " if k else ""}", offsetof({name}, {member}), '
                f"sizeof((({name} *)0)->{member}));"
            )
        lines.append('printf("}}");')
    lines += ['printf("}\\n"); return 0; }']
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "layout.c"
        source.write_text("\n".join(lines))
        program = pathlib.Path(folder) / "layout"
        subprocess.run([*COMPILER, f"-I{include}", "-o", str(program), str(source)], check=True)
        return json.loads(subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout)


if __name__ == "__main__":
    print(json.dumps(layout(sys.argv[1]), indent=1))
