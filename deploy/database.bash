# For `backup` and `restore`: the database that DATABASE_URL names, checked, with its password where no list of processes shows it.

say() { printf '%s\n' "$*"; }
fail() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
needs() { command -v "$1" >/dev/null || fail "there is no $1 here: install PostgreSQL's client programs, of the server's major version"; }
# major PROGRAM: 17 of `pg_dump (PostgreSQL) 17.6`
major() {
    [[ $("$1" --version) =~ \)\ ([0-9]+) ]] || fail "\`$1 --version\` names no version"
    say "${BASH_REMATCH[1]}"
}

[ -n "${DATABASE_URL:-}" ] || fail "DATABASE_URL is not set: it names the database, as the programs have it (postgres://user:password@host:5432/database)"
database=$DATABASE_URL
[[ $database =~ ^postgres(ql)?:// ]] || fail "DATABASE_URL does not begin with postgres:// or postgresql://: write it as postgres://user:password@host:5432/database"
if [[ $database =~ ^(postgres(ql)?://[^:/@]+):([^@]*)@(.*)$ ]]; then
    database=${BASH_REMATCH[1]}@${BASH_REMATCH[4]}
    password=${BASH_REMATCH[3]//\\/\\\\}
    PGPASSWORD=$(printf '%b' "${password//%/\\x}")
    export PGPASSWORD
fi
parameters=
[[ $database != *\?* ]] || parameters=\&${database#*\?}
[[ $parameters != *\&password=* ]] || fail "DATABASE_URL has its password among the parameters, where a list of processes would show it: write it as postgres://user:password@host:5432/database"
needs psql
# The programs trust the public authorities where nothing else is named. libpq has to be told, and learned it with 16.
if [[ $parameters != *\&sslrootcert=* && -z ${PGSSLROOTCERT:-} ]]; then
    mode=
    [[ $parameters != *\&sslmode=* ]] || mode=${parameters##*&sslmode=} mode=${mode%%&*}
    case $mode in
        verify-ca) fail "sslmode=verify-ca needs sslrootcert=<file of certificates (PEM)>, here as with the programs" ;;
        verify-full)
            version=$(major psql)
            [ "$version" -ge 16 ] || fail "sslmode=verify-full needs a file of authorities for psql $version, which does not know the public ones by itself: set PGSSLROOTCERT, often /etc/ssl/certs/ca-certificates.crt"
            export PGSSLROOTCERT=system
            ;;
    esac
fi
query() { psql --no-psqlrc --tuples-only --no-align --set ON_ERROR_STOP=1 --dbname "$database" --command "$1"; }

# is_of_the_server PROGRAM: pg_dump 17 writes what pg_restore 16 cannot read, and pg_restore 17 says what a server 16 does not know.
is_of_the_server() {
    local number version
    number=$(query "SHOW server_version_num") || fail "this database cannot be reached; where there is none yet, make one: CREATE DATABASE ..."
    version=$(major "$1")
    [ "$version" = $((number / 10000)) ] || fail "the server is PostgreSQL $((number / 10000)), and $1 is of $version: take PostgreSQL's client programs of $((number / 10000)). Nothing was done"
}
