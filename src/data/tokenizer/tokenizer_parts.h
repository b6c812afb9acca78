// What a Tokenizer is made of, for those who walk through it: encoder, decoders.
#pragma once

#include <memory>
#include <string>

#include "data/tokenizer/model/model.h"
#include "data/tokenizer/steps/added_tokens.h"
#include "data/tokenizer/steps/decoder.h"
#include "data/tokenizer/steps/normalizer.h"
#include "data/tokenizer/steps/post_processor.h"
#include "data/tokenizer/steps/pre_tokenizer.h"

namespace tessera {

struct TokenizerParts {
  std::unique_ptr<const Normalizer> normalizer;  // null: none
  PreTokenization pre_tokenization;
  std::unique_ptr<const TokenModel> model;
  AddedTokens added;
  PostProcessing post_processing;
  std::unique_ptr<const TokenDecoder> decoder;  // null: tokens with blanks between them
  std::string fingerprint;
  int32_t vocab_size = 0;
  // Some pieces are cut with an eye on where they come from, after the text was normalized.
  bool must_track = false;
};

}  // namespace tessera
