#include "tools/output_path.h"

#include <string>

#include "io/base/error.h"
#include "io/home_path.h"

namespace millrace::tools {

CLI::Validator output_path() {
  return CLI::Validator(
      [](std::string& path) -> std::string {
        try {
          path = io::with_home(path);
          return {};
        } catch (const Error& error) {
          return error.message();
        }
      },
      "");
}

}  // namespace millrace::tools
