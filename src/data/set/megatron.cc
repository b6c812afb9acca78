#include "data/set/megatron.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "data/set/output_bytes.h"

namespace tessera {
namespace {

constexpr std::array<char, 9> kMagic = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
constexpr uint64_t kVersion = 1;
constexpr int64_t kHeaderBytes = 9 + 8 + 1 + 8 + 8;
constexpr int64_t kSequenceBytes = 4 + 8;
constexpr const char* kCopyAgain = "copy it again, or prepare the corpus again";

constexpr std::pair<uint8_t, TokenType> kCodes[] = {{1, TokenType::kU8},  {2, TokenType::kI8},
                                                    {3, TokenType::kI16}, {4, TokenType::kI32},
                                                    {5, TokenType::kI64}, {8, TokenType::kU16}};

uint8_t code_of(TokenType type) {
  for (const auto& [code, known] : kCodes) {
    if (known == type) return code;
  }
  TESSERA_CHECK(false, "Megatron has no {}", name_of(type));
  return 0;
}

TokenType type_of_code(uint8_t code, const std::string& path) {
  for (const auto& [known, type] : kCodes) {
    if (known == code) return type;
  }
  throw ConfigError(fmt::format(
      "'{}': byte 17 is {}, no type of tokens (1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 8 u16): {}", path,
      code, kCopyAgain));
}

}  // namespace

MegatronIndex MegatronIndex::open(const std::filesystem::path& path) {
  MappedFile file = MappedFile::open(path);
  const std::byte* bytes = file.bytes().data();
  const std::string& name = file.path();
  require_config(file.size() >= kHeaderBytes,
                 "'{}' has {} bytes, its header alone {}: it is cut off; {}", name, file.size(),
                 kHeaderBytes, kCopyAgain);
  require_config(std::memcmp(bytes, kMagic.data(), kMagic.size()) == 0,
                 "'{}' does not begin with MMIDIDX: it is no index of Megatron's, or damaged; {}",
                 name, kCopyAgain);
  const uint64_t version = read_u64(bytes + 9);
  require_config(version == kVersion, "'{}': byte 9: version {}, only 1 is known", name, version);
  const TokenType type = type_of_code(static_cast<uint8_t>(bytes[17]), name);
  const uint64_t sequences = read_u64(bytes + 18);
  const uint64_t entries = read_u64(bytes + 26);
  const auto room = static_cast<uint64_t>(file.size() - kHeaderBytes);
  // Divided, not multiplied: the counts of a damaged file may be anything.
  const bool fits = sequences <= room / kSequenceBytes &&
                    entries <= (room - sequences * kSequenceBytes) / sizeof(int64_t);
  require_config(fits,
                 "'{}': {} sequences and {} entries of documents do not fit into its {} bytes: it "
                 "is cut off or damaged; {}",
                 name, sequences, entries, file.size(), kCopyAgain);
  require_config(entries >= 1, "'{}': byte 26: no list of documents: {}", name, kCopyAgain);
  return {std::move(file), type, static_cast<int64_t>(sequences), static_cast<int64_t>(entries)};
}

int64_t MegatronIndex::length(int64_t sequence) const {
  return read_i32(file_.bytes().data() + kHeaderBytes + sequence * 4);
}

int64_t MegatronIndex::pointer(int64_t sequence) const {
  return read_i64(file_.bytes().data() + kHeaderBytes + sequences_ * 4 + sequence * 8);
}

int64_t MegatronIndex::first_sequence(int64_t document) const {
  return read_i64(file_.bytes().data() + kHeaderBytes + sequences_ * kSequenceBytes + document * 8);
}

TokenType megatron_type(int64_t vocab_size) {
  constexpr int64_t kFewest = 65500;
  return vocab_size < kFewest ? TokenType::kU16 : TokenType::kI32;
}

void write_megatron_index(const std::filesystem::path& path, TokenType type, int64_t documents,
                          const std::function<int64_t(int64_t)>& end_of) {
  OutputBytes out = OutputBytes::create(path);
  const auto put = [&](auto value) { out.append(std::as_bytes(std::span(&value, 1))); };
  out.append(std::as_bytes(std::span(kMagic)));
  put(kVersion);
  put(code_of(type));
  put(static_cast<uint64_t>(documents));
  put(static_cast<uint64_t>(documents + 1));
  const auto begin_of = [&](int64_t i) { return i == 0 ? int64_t{0} : end_of(i - 1); };
  for (int64_t i = 0; i < documents; ++i) {
    const int64_t length = end_of(i) - begin_of(i);
    require_config(length <= std::numeric_limits<int32_t>::max(),
                   "document {} has {} tokens; Megatron's format has room for 2^31 - 1: split it "
                   "with --separator, or use --format tessera",
                   i + 1, length);
    put(static_cast<int32_t>(length));
  }
  for (int64_t i = 0; i < documents; ++i) put(begin_of(i) * bytes_of(type));
  for (int64_t i = 0; i <= documents; ++i) put(i);
  out.finish();
}

}  // namespace tessera
