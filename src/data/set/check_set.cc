#include "data/set/check_set.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "data/set/block_sums.h"

namespace tessera {
namespace {

constexpr const char* kRepair =
    "copy the set again from where it is whole, or run 'tessera data prepare' again";

void check_sums(const MappedFile& file, const std::vector<uint32_t>& sums) {
  for (size_t block = 0; block < sums.size(); ++block) {
    const int64_t begin = static_cast<int64_t>(block) * kSumBlockBytes;
    const int64_t end = std::min(begin + kSumBlockBytes, file.size());
    const auto bytes =
        file.bytes().subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    require_config(crc32_of(bytes) == sums[block],
                   "'{}': bytes {} to {} are not what was written (their checksum differs): {}",
                   file.path(), begin, end, kRepair);
  }
}

// Documents as they come, each from where the last one ended.
class DocumentLengths {
 public:
  DocumentLengths(const std::string& path, SetCheck& check) : path_(path), check_(check) {}

  void add(int64_t document, int64_t end) {
    require_config(end >= last_,
                   "'{}': document {} ends at token {}, before it begins at token {}: {}", path_,
                   document, end, last_, kRepair);
    const int64_t length = end - last_;
    check_.shortest_document = document == 0 ? length : std::min(check_.shortest_document, length);
    check_.longest_document = std::max(check_.longest_document, length);
    last_ = end;
  }
  void finish(int64_t tokens) const {
    require_config(last_ == tokens, "'{}': its documents end at token {}, the tokens at {}: {}",
                   path_, last_, tokens, kRepair);
  }

 private:
  const std::string& path_;
  SetCheck& check_;
  int64_t last_ = 0;
};

void check_folder(const TokenSet& set, SetCheck& check) {
  check_sums(set.document_ends(), set.description().document_sums);
  check_sums(set.tokens(), set.description().token_sums);
  DocumentLengths lengths(set.document_ends().path(), check);
  for (int64_t i = 0; i < set.documents(); ++i) {
    const uint64_t end = read_u64(set.document_ends().bytes().data() + i * 8);
    lengths.add(i, end > static_cast<uint64_t>(set.size()) ? INT64_MAX : static_cast<int64_t>(end));
  }
  lengths.finish(set.size());
}

void check_index(const TokenSet& set, SetCheck& check) {
  const MegatronIndex& index = set.index();
  const int64_t token_bytes = bytes_of(index.type());
  int64_t tokens = 0;
  for (int64_t i = 0; i < index.sequences(); ++i) {
    require_config(index.pointer(i) == tokens * token_bytes && index.length(i) >= 0,
                   "'{}': sequence {} begins at byte {} and has {} tokens, but the one before it "
                   "ends at byte {}: {}",
                   index.path(), i, index.pointer(i), index.length(i), tokens * token_bytes,
                   kRepair);
    tokens += index.length(i);
  }
  DocumentLengths lengths(index.path(), check);
  for (int64_t i = 0; i <= index.documents(); ++i) {
    const int64_t first = index.first_sequence(i);
    require_config(first >= 0 && first <= index.sequences() && (i > 0 || first == 0),
                   "'{}': document {} begins with sequence {} of {}: {}", index.path(), i, first,
                   index.sequences(), kRepair);
    const int64_t begin =
        first == index.sequences() ? set.size() : index.pointer(first) / token_bytes;
    if (i > 0) lengths.add(i - 1, begin);
  }
  lengths.finish(set.size());
}

}  // namespace

SetCheck check_set(const TokenSet& set, int64_t vocab) {
  constexpr int64_t kTokensAtOnce = int64_t{1} << 16;
  SetCheck check;
  set.is_megatron() ? check_index(set, check) : check_folder(set, check);
  std::vector<int32_t> some;
  for (int64_t first = 0; first < set.size(); first += kTokensAtOnce) {
    some.resize(static_cast<size_t>(std::min(kTokensAtOnce, set.size() - first)));
    set.copy(first, some, vocab > 0 ? vocab : set.vocab_size());
    check.largest_id =
        std::max<int64_t>(check.largest_id, *std::max_element(some.begin(), some.end()));
  }
  return check;
}

}  // namespace tessera
