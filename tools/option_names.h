// The names of options as users know them from elsewhere, and the error for unknown ones.
//
//   --max-epochs, --learning-rate, --batch_size  ->  --epochs, --lr, --batch-size
//
// Threads: pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace millrace::tools {

/// The long name, without dashes, that `app` knows `name` by: with _ for -, in another case, or as
/// PyTorch and Lightning call it. Throws: InvalidArgument, with the nearest name, for none.
std::string option_name(const CLI::App& app, std::string_view name);

/// The words with every option by the name that `app` knows. Throws: InvalidArgument for an option
/// that there is not, or one without its value.
std::vector<std::string> with_known_options(const CLI::App& app,
                                            std::span<const std::string> words);

}  // namespace millrace::tools
