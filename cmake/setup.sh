# What quickstart.sh and test.sh share; read by both with `source`, in the repository's root.

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 5; }

# Runs a command as root: directly, or through sudo.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else die "installing packages needs root, and there is no sudo. Run as root: $*"
  fi
}

is_installed() {
  dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed
}

# wanted_packages [+]: names from the list, optional ones with their '?'; with '+' those for tests too.
wanted_packages() {
  sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' cmake/debian-packages.txt |
    if [ "${1:-}" = + ]; then sed 's/^+//'; else grep -v '^+'; fi
}

# install_packages [+]: installs what is missing. Nothing is asked of the network when nothing is.
install_packages() {
  local name missing=() optional=()
  for name in $(wanted_packages "${1:-}"); do
    is_installed "${name#\?}" && continue
    case $name in
      \?*) optional+=("${name#\?}") ;;
      *) missing+=("$name") ;;
    esac
  done
  # An optional package that was not to be had is not looked for again in each run.
  local tried=build/optional-packages-tried
  [ -f "$tried" ] && [ "${#missing[@]}" = 0 ] && return
  [ "${#missing[@]}" = 0 ] && [ "${#optional[@]}" = 0 ] && return
  command -v apt-get >/dev/null ||
    die "this script installs packages with apt-get, which is not here. Install by your own means: ${missing[*]}"
  say "installing packages: ${missing[*]} ${optional[*]}"
  as_root apt-get update -qq || die "apt-get update failed"
  for name in "${optional[@]}"; do
    apt-cache show "$name" >/dev/null 2>&1 && missing+=("$name")
  done
  if [ "${#missing[@]}" != 0 ]; then
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
      >/dev/null || die "apt-get install failed for: ${missing[*]}"
  fi
  mkdir -p build && touch "$tried"
}

# build PRESET [target...]: configures if needed and builds with all cores.
build() {
  local preset=$1; shift
  [ -f "build/$preset/build.ninja" ] || cmake --preset "$preset" -DCMAKE_MESSAGE_LOG_LEVEL=WARNING
  cmake --build "build/$preset" -j "$(nproc)" ${1:+--target "$@"}
}
