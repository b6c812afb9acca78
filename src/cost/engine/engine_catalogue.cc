#include "cost/engine/engine_catalogue.h"

#include <algorithm>

#include "base/embedded.h"
#include "base/error.h"
#include "cost/engine/engine_keys.h"
#include "cost/hardware/constant_file.h"

namespace tessera {
namespace {

const CatalogueKind kEngines = {"engines", "engine", embedded_engines};

// What another engine's file says of itself stays in the sentence.
Constant borrowed(const Constant& constant, const std::string& from) {
  if (constant.provenance == Provenance::kBorrowed) return constant;
  return {constant.value, Provenance::kBorrowed,
          fmt::format("{}, {}: {}", from, name_of(constant.provenance), constant.source)};
}

Engine read_engine(const CatalogueSource& source, ExtendsChain& chain) {
  const ConstantFile file(source);
  const toml::table& table = file.table();
  std::vector<std::string_view> known = {"name", "extends"};
  for (const EngineKey& key : kEngineKeys) known.push_back(key.name);
  file.refuse_unknown(table, known);
  Engine engine;
  file.read(table, "extends", engine.extends);
  if (engine.extends.empty()) {
    engine.constants.resize(kEngineKeys.size());
  } else {
    const std::string base = beside(source.file_name, engine.extends);
    chain.enter(base, file.at(table.get("extends")->source()));
    engine.constants = read_engine(find_source(kEngines, base, chain.read()), chain).constants;
    for (Constant& constant : engine.constants) constant = borrowed(constant, engine.extends);
  }
  file.read(table, "name", engine.name);
  for (size_t i = 0; i < kEngineKeys.size(); ++i) {
    const EngineKey& key = kEngineKeys[i];
    require_config(!engine.extends.empty() || table.contains(key.name),
                   "{}: {} is missing: give it as [number, \"{}\", \"counted\", \"where it comes "
                   "from\"], or extends = \"megatron\"",
                   source.file_name, key.name, key.unit);
    file.read_with_unit(table, key.name, key.unit, engine.constants[i]);
  }
  return engine;
}

Engine named_engine(const CatalogueSource& source, const std::string& name,
                    const FileReader& read) {
  ExtendsChain chain(read, name);
  Engine engine = read_engine(source, chain);
  if (engine.name.empty()) engine.name = name;
  for (size_t i = 0; i < kEngineKeys.size(); ++i) {
    engine.numbers.*kEngineKeys[i].field = engine.constants[i].value;
  }
  try {
    check(engine.numbers);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}: {}", source.file_name, error.what()));
  }
  return engine;
}

}  // namespace

const Constant& constant_of(const Engine& engine, double EngineNumbers::*field) {
  const EngineKey* end = kEngineKeys.data() + kEngineKeys.size();
  const EngineKey* key =
      std::find_if(kEngineKeys.data(), end, [&](const EngineKey& k) { return k.field == field; });
  TESSERA_CHECK(key != end, "a number of an engine has no key");
  return engine.constants[static_cast<size_t>(key - kEngineKeys.data())];
}

void check(const EngineNumbers& engine) {
  for (const EngineKey& key : kEngineKeys) {
    const double value = engine.*key.field;
    require_config(value >= key.least && value <= key.most,
                   "engine: {} must be from {:g} to {:g}, got {:g}", key.name, key.least, key.most,
                   value);
    require_config(key.unit != "0 or 1" || value == 0 || value == 1,
                   "engine: {} must be 0 or 1, got {:g}", key.name, value);
  }
}

std::vector<std::string_view> engine_names() { return names_of(kEngines); }

Engine find_engine(const std::string& name, const FileReader& read) {
  return named_engine(find_source(kEngines, name, read), name, read);
}

Engine parse_engine(std::string_view text, const std::string& file_name, const FileReader& read) {
  return named_engine({std::string(text), file_name}, file_name, read);
}

}  // namespace tessera
