#include "tests/emulation/symbols.h"

#include <cxxabi.h>
#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <vector>

namespace lockstep::emulation {
namespace {

template <class T>
std::vector<T> read_array(std::ifstream& file, std::uint64_t offset, std::uint64_t bytes) {
  std::vector<T> items(bytes / sizeof(T));
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(items.data()), static_cast<std::streamsize>(bytes));
  return items;
}

struct Function {
  std::string symbol;
  std::uintptr_t end = 0;
};

// Functions of the program by address, as the program's file numbers them.
std::map<std::uintptr_t, Function> read_functions() {
  std::map<std::uintptr_t, Function> functions;
  std::ifstream file("/proc/self/exe", std::ios::binary);
  ElfW(Ehdr) header;
  if (!file.read(reinterpret_cast<char*>(&header), sizeof(header))) return functions;
  const auto sections = read_array<ElfW(Shdr)>(file, header.e_shoff,
                                               std::uint64_t{header.e_shnum} * sizeof(ElfW(Shdr)));
  for (const auto& section : sections) {
    if (section.sh_type != SHT_SYMTAB) continue;
    const auto& strings = sections[section.sh_link];
    const auto names = read_array<char>(file, strings.sh_offset, strings.sh_size);
    for (const auto& symbol : read_array<ElfW(Sym)>(file, section.sh_offset, section.sh_size)) {
      if ((symbol.st_info & 0xF) == STT_FUNC && symbol.st_value != 0) {
        functions[symbol.st_value] = {names.data() + symbol.st_name,
                                      symbol.st_value + symbol.st_size};
      }
    }
  }
  return functions;
}

// Where the program was loaded, less the addresses in its file.
std::uintptr_t load_offset() {
  std::uintptr_t offset = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        *static_cast<std::uintptr_t*>(result) = info->dlpi_addr;
        return 1;  // the program comes first
      },
      &offset);
  return offset;
}

std::string demangled(const std::string& symbol) {
  int status = 0;
  char* const text = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  std::string name = status == 0 ? text : symbol;
  std::free(text);
  // The parameters go, "(anonymous namespace)" stays.
  const std::size_t parameters = name.rfind('(');
  if (parameters != std::string::npos && name.compare(parameters, 10, "(anonymous") != 0) {
    name.resize(parameters);
  }
  return name;
}

}  // namespace

std::string name_of_function(const void* address) {
  static const std::map<std::uintptr_t, Function> functions = read_functions();
  static const std::uintptr_t offset = load_offset();
  const std::uintptr_t in_file = reinterpret_cast<std::uintptr_t>(address) - offset;
  const auto next = functions.upper_bound(in_file);
  if (next == functions.begin() || in_file >= std::prev(next)->second.end) return "?";
  return demangled(std::prev(next)->second.symbol);
}

}  // namespace lockstep::emulation
