#!/bin/sh
# Compiles and runs Changes.java; ./run.sh [HOST:PORT] [http://REGISTRY] [TOPIC]. Jars are kept in build/jars.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
jars=${JARS:-build/jars/java-example}
if [ ! -e "$jars/.complete" ]; then
    ivy=${IVY:-$(python3 -c 'import glob, os, pyspark
print(glob.glob(os.path.join(os.path.dirname(pyspark.__file__), "jars", "ivy-*.jar"))[0])')}
    mkdir -p "$jars"
    jars=$(cd "$jars" && pwd)
    java -jar "$ivy" -ivy "$here/ivy.xml" -cache "$jars/../ivy" \
        -retrieve "$jars/[artifact]-[revision].[ext]" -types jar bundle >&2
    touch "$jars/.complete"
fi
classes=$jars/classes
javac -cp "$jars/*" -d "$classes" "$here/Changes.java"
exec java -cp "$classes:$jars/*" Changes \
    "${1:-127.0.0.1:9092}" "${2:-http://127.0.0.1:8081}" "${3:-shop.public.orders}"
