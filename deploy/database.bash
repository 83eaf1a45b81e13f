# For `backup` and `restore`: the database that DATABASE_URL names, checked, with its password where no list of processes shows it.

say() { printf '%s\n' "$*"; }
fail() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
needs() { command -v "$1" >/dev/null || fail "there is no $1 here: install PostgreSQL's client programs, of the server's version or newer"; }

[ -n "${DATABASE_URL:-}" ] || fail "DATABASE_URL is not set: it names the database, as the programs have it (postgres://user:password@host:5432/database)"
database=$DATABASE_URL
if [[ $database =~ ^(postgres(ql)?://[^:/@]+):([^@]*)@(.*)$ ]]; then
    database=${BASH_REMATCH[1]}@${BASH_REMATCH[4]}
    password=${BASH_REMATCH[3]}
    PGPASSWORD=$(printf '%b' "${password//%/\\x}")
    export PGPASSWORD
fi
query() { psql --no-psqlrc --tuples-only --no-align --set ON_ERROR_STOP=1 --dbname "$database" --command "$1"; }
