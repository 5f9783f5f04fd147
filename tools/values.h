// The values of options: names, numbers, files, each as a CLI11 transform that normalises the
// value's spelling and explains in plain words what is wrong with it.
//
//   app.add_option("--optimizer", optimizer)->transform(one_of({"sgd", "adam"}));
//   app.add_option("--epochs", epochs)->transform(whole_number(1, 1000));
//
// A name is accepted in any case, with or without - and _ ("Adam", "multi_step"); the error for an
// unknown one suggests the nearest. Whole numbers may be written 1e6 and 1_000_000.
//
// Threads: pure functions.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::tools {

/// Other names of a value: {"bfloat16", "bf16"}.
using ValueAliases = std::map<std::string, std::string>;

CLI::Validator one_of(const std::vector<std::string>& names, const ValueAliases& aliases = {});

/// Larger counts are mistakes, and would overflow in products.
inline constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 50U;

CLI::Validator whole_number(std::int64_t least, std::uint64_t most = kMaxCount);
/// The same, or N/unit: "512/all".
CLI::Validator whole_number_of(std::string_view unit, std::int64_t least, std::uint64_t most);
/// What whole_number_of() let pass: the number, and whether it has the unit.
std::int64_t number_of(const std::string& text, std::string_view unit);
bool is_of(const std::string& text, std::string_view unit);
/// Any 64 bits.
CLI::Validator seed_number();
/// Finite, and within [least, most].
CLI::Validator real_number(double least, double most = 1e30);
CLI::Validator above_zero();

/// An existing local file, or folder.
CLI::Validator existing_file();
CLI::Validator existing_folder();

}  // namespace millrace::tools
