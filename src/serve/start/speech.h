// What a model speaks, by what lies in its folder, and the grammars that hold its answers to a
// shape.
#pragma once

#include <filesystem>
#include <memory>

#include "serve/api/asked.h"
#include "serve/api/words.h"
#include "train/verify/model_folder.h"

namespace tessera::serve {

struct Speech {
  std::shared_ptr<const Words> words;
  MakeGrammar make_grammar;  // empty: its words are ids alone
};

// The tokenizer of `tokenizer`, where that is not empty, else that of the model; a run without one
// whose vocabulary are the bytes speaks bytes; any other model ids alone.
Speech speech_of(const ModelFolder& model, const std::filesystem::path& tokenizer,
                 const std::filesystem::path& chat_template);

}  // namespace tessera::serve
