// How good a model is: perplexity of texts, and right answers among given ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/verify/model_folder.h"

namespace tessera {

struct EvaluateOptions {
  std::string model;  // the directory of a run, or a Hugging Face folder
  // Files of text, *.jsonl with "choices" (questions), and sets of tokens (data/set/token_set.h).
  std::vector<std::string> data;
  std::string tokenizer = "";  // a folder or file; empty: that of the model, else bytes
  int64_t seq_len = 0;         // tokens that the model sees at most; 0: as it was trained
  int64_t limit = 0;           // questions of a file, or windows of a text; 0: all
};

struct TextScore {
  int64_t tokens = 0;  // that were predicted
  int64_t bytes = 0;   // of the text; 0: not known
  double loss = 0;     // mean of -log p of a token
  [[nodiscard]] double perplexity() const;
  [[nodiscard]] double bits_per_byte() const;  // of all tokens that were predicted
};

struct ChoiceScore {
  int64_t questions = 0;
  int64_t right = 0;             // the choice with the highest log-probability is the right one
  int64_t right_normalized = 0;  // that with the highest one for each of its characters
};

// One of the two.
struct SetScore {
  std::string file;
  bool choices = false;
  TextScore text;
  ChoiceScore choice;
};

// Texts are cut into windows of seq_len tokens, each of which also predicts the first token of the
// next; of a question the beginning is left out where it is too long. Throws ConfigError with file
// and line for what cannot be read, and for tokens that the model does not have.
std::vector<SetScore> evaluate(const EvaluateOptions& options);

// One line of a file of questions: {"query": ..., "choices": [...], "gold": 0}. "context" and
// "question" also name the query; "label" and "answer" the number of the right choice, which may
// also be a letter from A on.
struct Question {
  std::string query;
  std::vector<std::string> choices;
  size_t gold = 0;
};
Question parse_question(const std::string& line, const std::string& place);

// What stands between a query and a choice: a space, unless one of them has white space there.
std::string joined(const std::string& query, const std::string& choice);

}  // namespace tessera
