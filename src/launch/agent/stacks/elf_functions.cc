#include "launch/agent/stacks/elf_functions.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace tessera {
namespace {

constexpr size_t kMostHeaders = 4096;
constexpr uint64_t kMostBytes = uint64_t{1} << 30;  // of a table

// Empty where the file has not all of it.
std::string read_at(int fd, uint64_t offset, uint64_t size_bytes) {
  struct stat status {};
  if (::fstat(fd, &status) != 0 || size_bytes > kMostBytes) return "";
  const auto all = static_cast<uint64_t>(status.st_size);
  if (offset > all || size_bytes > all - offset) return "";
  std::string bytes(size_bytes, '\0');
  const ssize_t got = ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
  return got == static_cast<ssize_t>(bytes.size()) ? bytes : "";
}

template <typename T>
std::vector<T> read_table(int fd, uint64_t offset, uint64_t count) {
  if (count > kMostBytes / sizeof(T)) return {};
  const std::string bytes = read_at(fd, offset, count * sizeof(T));
  std::vector<T> table(bytes.size() / sizeof(T));
  if (!table.empty()) std::memcpy(table.data(), bytes.data(), table.size() * sizeof(T));
  return table;
}

// The full table, or that of the dynamic linker where the file has been stripped.
const Elf64_Shdr* symbols_of(const std::vector<Elf64_Shdr>& sections) {
  for (const Elf64_Word type : {Elf64_Word{SHT_SYMTAB}, Elf64_Word{SHT_DYNSYM}}) {
    const auto found = std::find_if(sections.begin(), sections.end(),
                                    [&](const Elf64_Shdr& s) { return s.sh_type == type; });
    if (found != sections.end()) return &*found;
  }
  return nullptr;
}

}  // namespace

ElfFunctions::ElfFunctions(int fd) {
  const std::vector<Elf64_Ehdr> head = read_table<Elf64_Ehdr>(fd, 0, 1);
  if (head.empty() || std::memcmp(head[0].e_ident, ELFMAG, SELFMAG) != 0) return;
  const Elf64_Ehdr& file = head[0];
  if (file.e_ident[EI_CLASS] != ELFCLASS64 || file.e_shentsize != sizeof(Elf64_Shdr)) return;
  if (file.e_phentsize != sizeof(Elf64_Phdr)) return;
  if (file.e_phnum > kMostHeaders || file.e_shnum > kMostHeaders) return;
  for (const Elf64_Phdr& part : read_table<Elf64_Phdr>(fd, file.e_phoff, file.e_phnum)) {
    if (part.p_type == PT_LOAD) segments_.push_back({part.p_offset, part.p_filesz, part.p_vaddr});
  }
  const auto sections = read_table<Elf64_Shdr>(fd, file.e_shoff, file.e_shnum);
  const Elf64_Shdr* const symbols = symbols_of(sections);
  if (symbols == nullptr || symbols->sh_link >= sections.size()) return;
  const Elf64_Shdr& names = sections[symbols->sh_link];
  if (names.sh_size > std::numeric_limits<uint32_t>::max()) return;
  names_ = read_at(fd, names.sh_offset, names.sh_size);
  const uint64_t count = symbols->sh_size / sizeof(Elf64_Sym);
  for (const Elf64_Sym& symbol : read_table<Elf64_Sym>(fd, symbols->sh_offset, count)) {
    const bool function = ELF64_ST_TYPE(symbol.st_info) == STT_FUNC;
    if (!function || symbol.st_value == 0 || symbol.st_name >= names_.size()) continue;
    functions_.push_back({symbol.st_value, symbol.st_size, symbol.st_name});
  }
  std::sort(functions_.begin(), functions_.end(), [](const Function& a, const Function& b) {
    return std::pair(a.address, a.size_bytes) < std::pair(b.address, b.size_bytes);
  });
}

std::optional<ElfFunctions::Place> ElfFunctions::at(uint64_t file_offset) const {
  const auto segment = std::find_if(segments_.begin(), segments_.end(), [&](const Segment& part) {
    return file_offset >= part.offset && file_offset - part.offset < part.size_bytes;
  });
  if (segment == segments_.end()) return std::nullopt;
  const uint64_t address = file_offset - segment->offset + segment->address;
  const auto after = std::upper_bound(
      functions_.begin(), functions_.end(), address,
      [](uint64_t wanted, const Function& function) { return wanted < function.address; });
  if (after == functions_.begin()) return std::nullopt;
  const Function& function = *std::prev(after);
  const uint64_t offset = address - function.address;
  // What is written in assembler may have no size.
  if (function.size_bytes != 0 && offset >= function.size_bytes) return std::nullopt;
  return Place{std::string(names_.c_str() + function.name), offset};
}

}  // namespace tessera
