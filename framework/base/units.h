// Quantities as people read and write them; one vocabulary for logs, reports and the configuration.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::base {

// "512 B", "1.0 MiB", "3.5 GiB": binary units, one decimal from KiB on.
std::string format_bytes(std::uint64_t bytes);

// "850 ns", "12.3 us", "12.3 ms", "4.2 s", "3 min 5 s", "2 h 14 min".
std::string format_duration(double seconds);

// "1GiB", "1.5 MiB", "4096", "64KB": a number and an optional unit, binary (KiB, MiB, GiB, TiB) or
// decimal (KB, MB, GB, TB), in any case. Throws ConfigError naming the text and what was expected.
std::uint64_t parse_bytes(std::string_view text);

}  // namespace lockstep::base
