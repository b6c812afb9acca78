#include "data/tokenizer/model/model.h"

namespace tessera {

void TokenModel::encode_split(std::string_view text, KnownSplit split, ModelWorkspace& workspace,
                              std::vector<int32_t>& ids) const {
  const uint8_t* table = character_table();
  for (size_t at = 0; at < text.size();) {
    const size_t end = end_of_piece(split, text, at, table);
    encode(text.substr(at, end - at), workspace, ids);
    at = end;
  }
}

}  // namespace tessera
