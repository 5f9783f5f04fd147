// The values of options: names, numbers, files, each as a CLI11 transform that normalises the
// value's spelling and explains in plain words what is wrong with it.
//
//   app.add_option("--optimizer", optimizer)->transform(one_of({"sgd", "adam"}));
//   app.add_option("--epochs", epochs)->transform(whole_number(1, 1000));
//   add_choice(app, "--uneven", options.batch.uneven, pipeline::kUnevenWords, "What to do
//   with...");
//
// A name is accepted in any case, with or without - and _ ("Adam", "multi_step"); the error for an
// unknown one suggests the nearest. Whole numbers may be written 1e6 and 1_000_000.
//
// Threads: pure functions.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/words.h"

namespace millrace::tools {

/// Other names of a value: {"bfloat16", "bf16"}.
using ValueAliases = std::map<std::string, std::string>;

CLI::Validator one_of(const std::vector<std::string>& names, const ValueAliases& aliases = {});

/// Larger counts are mistakes, and would overflow in products.
inline constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 50U;

CLI::Validator whole_number(std::int64_t least, std::uint64_t most = kMaxCount);

/// N, or N/unit: "512/all", "4/process".
struct CountOf {
  std::int64_t number = 0;
  bool has_unit = false;

  std::string text(std::string_view unit) const;
};
CLI::Option* add_count_of(CLI::App& app, const std::string& name, CountOf& value,
                          std::string_view unit, std::int64_t least, std::uint64_t most,
                          const std::string& sentence);

/// An option of which `read` takes the word, once `check` has, and `show` says the present value.
CLI::Option* add_read_option(CLI::App& app, const std::string& name, CLI::Validator check,
                             const std::function<void(const std::string&)>& read,
                             const std::function<std::string()>& show, const std::string& sentence);

/// An option whose value is one of an enumeration's words (io/base/words.h). `words` lives as long
/// as `app`.
template <typename E>
CLI::Option* add_choice(CLI::App& app, const std::string& name, E& value, Words<E> words,
                        const std::string& sentence) {
  return add_read_option(
      app, name, one_of(names_of(words)),
      [&value, name, words](const std::string& word) { value = value_of(name, word, words); },
      [&value, words] { return word_of(value, words); }, sentence);
}

/// Any 64 bits.
CLI::Validator seed_number();
/// Finite, and within [least, most].
CLI::Validator real_number(double least, double most = 1e30);
CLI::Validator above_zero();

/// An existing local file, or folder.
CLI::Validator existing_file();
CLI::Validator existing_folder();
/// Where results go, or a folder that an earlier command wrote: a path, whose `~` is the home
/// folder as in shard specs, or a url.
CLI::Validator output_path();

}  // namespace millrace::tools
