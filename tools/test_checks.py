"""Tests of the check scripts: small trees with one fault each, which must be found, and a clean one.

usage: tools/test_checks.py
"""

import io
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import check_includes
import check_source
import test_summary
import tidy
from source_files import Tree, without_comments

HEADER = "// What it is for.\n#pragma once\n"
BASE = "target_sources(sotto_base PRIVATE\n  hardware.cpp)\n"
CLEAN = {
    "src/cli/main.cpp": '#include "cli/commands/commands.h"\n#include "sotto/report/table.h"\n',
    "src/cli/commands/commands.h": HEADER,
    "src/sotto/core/error.h": HEADER + "#include <string>\n#define SOTTO_ASSERT(x) x\n",
    "src/sotto/report/table.h": HEADER + '#include "sotto/core/error.h"\n',
    "src/sotto/device/CMakeLists.txt": BASE,
    "src/sotto/device/hardware.cpp": '#include "sotto/device/hardware.h"\n// autosomal; std::cout\n',
    "src/sotto/device/hardware.h": HEADER + '#include "sotto/core/error.h"\n',
    "src/sotto/device/arena.cpp": "#include <c10/core/Allocator.h>\n",
    "src/sotto/kernels/base/gelu.h": HEADER
    + "struct Gelu {\n  static at::Tensor forward(const at::Tensor& x);\n};\n",
    "src/sotto/kernels/base/gelu.cpp": '#include "sotto/kernels/base/gelu.h"\n'
    "#include <ATen/core/Tensor.h>\n",
    "src/sotto/kernels/base/gelu_cuda.cu": '#include "sotto/kernels/base/array.h"\n#include <cuda_fp16.h>\n',
    "src/sotto/kernels/base/array.h": HEADER + "struct Array {\n  void* data;\n};\n",
    "src/sotto/nn/linear.h": HEADER + '#include "sotto/kernels/base/gelu.h"\n',
    "tests/support/kernel_cases.cpp": 'Case cases[] = {\n  {"Gelu", run_gelu},\n};\n',
    "tests/unit/cli/main_test.cpp": '#include "cli/commands/commands.h"\n#include "sotto/report/table.h"\n',
}


class TreeCase(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def make_tree(self, files: dict[str, str]) -> None:
        self.write(CLEAN | files)
        subprocess.run(["git", "init", "--quiet", str(self.root)], check=True)

    def expect(self, errors: list[str], start: str, *parts: str) -> None:
        """Exactly one error, at that place and with those words."""
        self.assertEqual(len(errors), 1, errors)
        self.assertTrue(errors[0].startswith(start), errors[0])
        for part in parts:
            self.assertIn(part, errors[0])


class Includes(TreeCase):
    def check(self, files: dict[str, str]) -> list[str]:
        self.make_tree(files)
        return check_includes.check(self.root)

    def test_clean_tree_passes(self) -> None:
        self.assertEqual(self.check({}), [])

    def test_module_after_its_own(self) -> None:
        errors = self.check({"src/sotto/kernels/base/x.cpp": '#include "sotto/nn/linear.h"\n'})
        self.expect(
            errors, "src/sotto/kernels/base/x.cpp:1: kernels includes nn, expected only core, device, kernels"
        )

    def test_report_is_for_lab_and_cli_alone(self) -> None:
        errors = self.check({"src/sotto/nn/x.cpp": '\n#include "sotto/report/table.h"\n'})
        self.expect(errors, "src/sotto/nn/x.cpp:2: nn includes report")

    def test_lab_may_include_report(self) -> None:
        self.assertEqual(self.check({"src/sotto/lab/x.cpp": '#include "sotto/report/table.h"\n'}), [])

    def test_data_knows_three_modules(self) -> None:
        self.assertEqual(check_includes.allowed_modules("data"), ["core", "device", "kernels", "data"])
        self.assertNotIn("report", check_includes.allowed_modules("plan"))
        self.assertIn("data", check_includes.allowed_modules("nn"))

    def test_nobody_includes_the_command_line(self) -> None:
        errors = self.check({"src/sotto/nn/x.cpp": '#include "cli/commands/commands.h"\n'})
        self.expect(errors, "src/sotto/nn/x.cpp:1: nn includes cli, expected only core, device")

    def test_room_after_its_own(self) -> None:
        header = {"src/sotto/core/formats/x.h": HEADER, "src/sotto/core/files/y.h": HEADER}
        later = header | {"src/sotto/core/files/x.cpp": '#include "sotto/core/formats/x.h"\n'}
        self.expect(
            self.check(later),
            "src/sotto/core/files/x.cpp:1: core/files includes formats, expected only core, files",
        )
        self.write(
            {
                "src/sotto/core/files/x.cpp": "",
                "src/sotto/core/formats/x.cpp": '#include "sotto/core/files/y.h"\n',
            }
        )
        self.assertEqual(check_includes.check(self.root), [])

    def test_unknown_room(self) -> None:
        errors = self.check({"src/sotto/core/attic/x.cpp": ""})
        self.expect(errors, "src/sotto/core/attic/x.cpp:1: in no known room of core")

    def test_plain_name_outside_the_command_line(self) -> None:
        errors = self.check({"src/sotto/nn/x.cpp": '#include "linear.h"\n'})
        self.expect(errors, 'src/sotto/nn/x.cpp:1: "linear.h", expected "sotto/<module>/x.h"')

    def test_unknown_module(self) -> None:
        errors = self.check(
            {"src/sotto/nn/x.cpp": '#include "sotto/util/x.h"\n', "src/sotto/util/x.h": HEADER}
        )
        self.assertEqual(len(errors), 2, errors)
        self.assertIn("src/sotto/nn/x.cpp:1", errors[0])
        self.assertIn("src/sotto/util/x.h:1: of no known module", errors[1])

    def test_file_of_the_folder_above(self) -> None:
        files = {"bench/gpu/x.cpp": '#include "../program.h"\n', "bench/program.h": HEADER}
        self.assertEqual(self.check(files), [])
        errors = self.check({"src/sotto/nn/x.cpp": '#include "../core/x.h"\n', "src/sotto/core/x.h": HEADER})
        self.expect(errors, 'src/sotto/nn/x.cpp:1: "../core/x.h", expected "sotto/<module>/x.h"')

    def test_missing_file(self) -> None:
        errors = self.check({"src/sotto/nn/x.cpp": '#include "sotto/core/none.h"\n'})
        self.expect(errors, 'src/sotto/nn/x.cpp:1: "sotto/core/none.h" is not there')

    def test_angle_brackets_round_our_own(self) -> None:
        errors = self.check({"src/sotto/nn/x.cpp": "#include <sotto/core/error.h>\n"})
        self.expect(errors, "src/sotto/nn/x.cpp:1: <sotto/core/error.h>, expected quotes")

    def test_the_face_includes_all_but_report(self) -> None:
        face = {"src/sotto/sotto.h": HEADER + '#include "sotto/core/error.h"\n'}
        clean = face | {"src/sotto/sotto.cpp": '#include "sotto/sotto.h"\n#include "sotto/nn/linear.h"\n'}
        self.assertEqual(self.check(clean), [])
        errors = self.check(face | {"src/sotto/sotto.cpp": '#include "sotto/report/table.h"\n'})
        self.expect(errors, "src/sotto/sotto.cpp:1: sotto includes report")

    def test_no_module_includes_the_face(self) -> None:
        files = {"src/sotto/sotto.h": HEADER, "src/sotto/nn/x.cpp": '#include "sotto/sotto.h"\n'}
        self.expect(self.check(files), "src/sotto/nn/x.cpp:1: nn includes sotto, expected only core")

    def test_torch_in_a_header_of_the_face(self) -> None:
        text = HEADER + '#include "sotto/nn/linear.h"\n'
        tensor = HEADER + "#include <ATen/core/Tensor.h>\n"
        errors = self.check({"src/sotto/sotto.h": text, "src/sotto/nn/linear.h": tensor})
        self.expect(errors, "src/sotto/nn/linear.h:3: includes ATen/core/Tensor.h", "src/sotto/sotto.h")

    def test_torch_in_core(self) -> None:
        errors = self.check({"src/sotto/core/x.cpp": "#include <ATen/ATen.h>\n"})
        self.expect(errors, "src/sotto/core/x.cpp:1: includes ATen/ATen.h, expected no header of LibTorch")

    def test_torch_in_a_header_of_a_base_file(self) -> None:
        errors = self.check({"src/sotto/device/hardware.h": HEADER + "#include <c10/core/Device.h>\n"})
        self.expect(errors, "src/sotto/device/hardware.h:3: includes c10/core/Device.h", "hardware.cpp")

    def test_torch_in_cuda(self) -> None:
        errors = self.check({"src/sotto/kernels/base/gelu_cuda.cu": "#include <ATen/core/Tensor.h>\n"})
        self.expect(errors, "src/sotto/kernels/base/gelu_cuda.cu:1: includes ATen/core/Tensor.h", "nvcc")

    def test_torch_in_a_header_of_cuda(self) -> None:
        errors = self.check({"src/sotto/kernels/base/array.h": HEADER + "#include <c10/util/Half.h>\n"})
        self.expect(
            errors, "src/sotto/kernels/base/array.h:3: includes c10/util/Half.h", "gelu_cuda.cu", "nvcc"
        )

    def test_umbrella_header_even_in_tests(self) -> None:
        errors = self.check({"tests/unit/x_test.cpp": "#include <torch/torch.h>\n"})
        self.expect(errors, "tests/unit/x_test.cpp:1: torch/torch.h, expected")

    def test_include_in_a_comment_is_none(self) -> None:
        text = '// #include "sotto/nn/linear.h"\n/*\n#include "sotto/nn/linear.h"\n*/\n'
        self.assertEqual(self.check({"src/sotto/core/x.cpp": text}), [])


class Source(TreeCase):
    def check(self, files: dict[str, str]) -> list[str]:
        self.make_tree(files)
        return check_source.check(self.root)

    def test_clean_tree_passes(self) -> None:
        self.assertEqual(self.check({}), [])
        self.assertEqual(list(check_source.long_files(Tree(self.root))), [])

    def test_autograd_even_in_comments(self) -> None:
        for word in ("torch::nn::Linear x;", "x.requires_grad();", "// as autograd does"):
            with self.subTest(word):
                errors = self.check({"src/sotto/nn/x.cpp": f"\n{word}\n"})
                self.expect(errors, "src/sotto/nn/x.cpp:2: ")

    def test_conditionals(self) -> None:
        for line in ("#if X", "#ifdef X", "# ifndef X"):
            with self.subTest(line):
                self.expect(self.check({"src/sotto/nn/x.cpp": line + "\n"}), "src/sotto/nn/x.cpp:1: #")

    def test_five_macros(self) -> None:
        text = "".join(f"#define SOTTO_{name} 1\n" for name in "ABCD")
        self.expect(self.check({"src/sotto/nn/x.cpp": text}), "src: 5 macros, expected at most 4", "SOTTO_D")

    def test_macro_of_another_name(self) -> None:
        self.expect(
            self.check({"src/sotto/nn/x.cpp": "#define CHECK 1\n"}), "src/sotto/nn/x.cpp:1: macro CHECK"
        )

    def test_kernel_without_a_row(self) -> None:
        for verb in ("forward", "backward", "apply", "accumulate", "multiply"):
            with self.subTest(verb):
                text = (
                    HEADER + f"struct Glu {{\n  struct In {{\n  }};\n  static void\n  {verb}(In in);\n}};\n"
                )
                errors = self.check({"src/sotto/kernels/elementwise/glu.h": text})
                self.expect(errors, "src/sotto/kernels/elementwise/glu.h:3: kernel Glu", 'a row {"Glu",')

    def test_row_in_a_comment_does_not_count(self) -> None:
        self.expect(
            self.check({"tests/support/kernel_cases.cpp": '// {"Gelu", run_gelu},\n'}),
            "src/sotto/kernels/base/gelu.h:3: kernel Gelu",
        )

    def test_printing_in_a_library(self) -> None:
        for call in ("std::cout << 1;", 'printf("x");', 'std::fprintf(f, "x");', 'fmt::print("x");'):
            with self.subTest(call):
                self.expect(self.check({"src/sotto/nn/x.cpp": call + "\n"}), "src/sotto/nn/x.cpp:1: ")

    def test_what_only_looks_like_printing(self) -> None:
        text = 'std::snprintf(b, 8, "x");\n// std::cout << table;\nlog.printf("x");\n'
        self.assertEqual(self.check({"src/sotto/nn/x.cpp": text}), [])

    def test_command_line_may_print(self) -> None:
        self.assertEqual(self.check({"src/cli/x.cpp": "std::cout << 1;\n"}), [])

    def test_header_without_guard(self) -> None:
        self.expect(self.check({"tests/support/x.h": "int x();\n"}), "tests/support/x.h:1: no include guard")

    def test_using_namespace_in_a_header(self) -> None:
        errors = self.check({"src/sotto/nn/x.h": HEADER + "using namespace std;\n"})
        self.expect(errors, "src/sotto/nn/x.h:3: using namespace")

    def test_large_file(self) -> None:
        self.expect(self.check({"docs/x.bin": "x" * 1_000_001}), "docs/x.bin: 1000001 bytes")

    def test_long_file_is_a_warning(self) -> None:
        self.assertEqual(self.check({"src/sotto/nn/x.cpp": "int x;\n" * 501}), [])
        warnings = list(check_source.long_files(Tree(self.root)))
        self.expect(warnings, "src/sotto/nn/x.cpp: 501 lines")

    def test_todo_needs_an_issue(self) -> None:
        word = "TO" + "DO"
        self.expect(
            self.check({"tools/x.py": f"# {word}: later\n"}), f"tools/x.py:1: {word} without an issue"
        )
        self.assertEqual(self.check({"tools/x.py": f"# {word}(#12): later\n"}), [])

    def test_trailing_space(self) -> None:
        for text in ("x \n", "x\t\n", "x\r\n", "x "):
            with self.subTest(text):
                self.expect(self.check({"README.md": text}), "README.md:1: trailing space")

    def test_path_of_one_machine(self) -> None:
        for folder in ("work", "home", "root"):
            with self.subTest(folder):
                self.expect(self.check({"x.yaml": f"path: /{folder}/x\n"}), "x.yaml:1: a path of one machine")
        self.assertEqual(self.check({"x.yaml": "path: runs/work/x and $HOME/work/x\n"}), [])

    def test_ignored_files_are_not_looked_at(self) -> None:
        self.assertEqual(self.check({".gitignore": "/build/\n", "build/x.txt": "x \n"}), [])


class Comments(unittest.TestCase):
    def test_lines_stay_and_literals_too(self) -> None:
        text = 'a("//"); // x\nb(\'"\'); /* y\nz */ c(1\'000); // it\'s\nR"(/* no */)";\n'
        kept = without_comments(text)
        self.assertEqual(kept.count("\n"), text.count("\n"))
        self.assertIn('a("//");', kept)
        self.assertIn("c(1'000);", kept)
        self.assertIn("/* no */", kept)
        for gone in ("x", "y", "z", "it's"):
            self.assertNotIn(gone, kept)


class TidyChoice(TreeCase):
    def test_a_changed_header_is_seen_through_one_file(self) -> None:
        self.make_tree({})
        tree = Tree(self.root)
        candidates = [name for name in tree.files if name.endswith(".cpp")]
        self.assertEqual(
            tidy.choose(tree, candidates, {"src/sotto/kernels/base/gelu.h"}),
            ["src/sotto/kernels/base/gelu.cpp"],
        )
        self.assertEqual(tidy.choose(tree, candidates, {"src/sotto/report/table.h"}), ["src/cli/main.cpp"])
        changed = {"src/sotto/report/table.h", "src/cli/main.cpp"}
        self.assertEqual(tidy.choose(tree, candidates, changed), ["src/cli/main.cpp"])
        self.assertEqual(tidy.choose(tree, candidates, {"README.md"}), [])

    def test_what_makes_a_file_new(self) -> None:
        self.make_tree({".clang-tidy": "a", "tests/.clang-tidy": "b"})
        name = "src/sotto/kernels/base/gelu.cpp"

        def key(command: str = "c++") -> str:
            return tidy.key_of(Tree(self.root), name, command, "1")

        first = key()
        self.assertEqual(key(), first)
        self.write({"tests/.clang-tidy": "c", "src/sotto/nn/linear.h": "other"})
        self.assertEqual(key(), first)
        self.assertNotEqual(key("c++ -O3"), first)
        self.write({"src/sotto/kernels/base/gelu.h": "other"})
        second = key()
        self.assertNotEqual(second, first)
        self.write({".clang-tidy": "b"})
        self.assertNotEqual(key(), second)


PASSED = '<testcase name="A" status="run" result="completed" time="1.5" classname="Suite"/>'
FAILED = (
    '<testcase name="B" status="run" result="completed" time="0.5" classname="Suite">'
    '<failure message="x.cpp:3&#x0A;Expected: 1" type=""/></testcase>'
)
SKIPPED = (
    '<testcase name="C" status="run" result="skipped" time="0" classname="Suite">'
    '<skipped message="x/y_test.cpp:9&#x0A;no GPU here&#x0A;"/></testcase>'
)


class TestSummary(TreeCase):
    """Against the real ctest, which needs no more than a CTestTestfile.cmake."""

    def summarize(self, results: dict[str, str], *arguments: str) -> tuple[int, list[str]]:
        lines = []
        for label in ("unit", "gpu", "slow"):
            lines.append(
                f"add_test({label}_x true)\nset_tests_properties({label}_x PROPERTIES LABELS {label})\n"
            )
        self.write({"CTestTestfile.cmake": "".join(lines)})
        for name, cases in results.items():
            self.write(
                {f"test-results/{name}.xml": f"<testsuites><testsuite>{cases}</testsuite></testsuites>"}
            )
        script = Path(test_summary.__file__)
        command = [sys.executable, str(script), str(self.root), "--exclude-label", "slow", *arguments]
        result = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(result.stderr, "")
        return result.returncode, result.stdout.splitlines()

    def test_all_passed(self) -> None:
        code, lines = self.summarize({"unit_x": PASSED * 2, "gpu_x": PASSED})
        self.assertEqual(code, 0)
        self.assertEqual(lines[-1], "3 passed, 0 failed, 0 skipped")
        self.assertEqual(lines[2].split(), ["unit", "2", "2", "0", "0", "3.0"])

    def test_a_failure(self) -> None:
        code, lines = self.summarize({"unit_x": PASSED + FAILED, "gpu_x": PASSED})
        self.assertEqual(code, 1)
        self.assertIn("FAILED unit_x: Suite.B: x.cpp:3 Expected: 1", lines)
        self.assertEqual(lines[-1], "2 passed, 1 failed, 0 skipped")

    def test_a_crash_leaves_no_results(self) -> None:
        code, lines = self.summarize({"unit_x": PASSED})
        self.assertEqual(code, 1)
        self.assertTrue(any(line.startswith("FAILED gpu_x: left no results") for line in lines), lines)
        self.assertEqual(lines[-1], "1 passed, 1 failed, 0 skipped")

    def test_a_crash_leaves_half_a_file(self) -> None:
        self.write({"test-results/gpu_x.xml": "<testsuites><testsuite>"})
        self.assertEqual(self.summarize({"unit_x": PASSED})[1][-1], "1 passed, 1 failed, 0 skipped")

    def test_an_error_at_exit(self) -> None:
        ctest = '<testcase name="unit_x" status="fail"><failure message=""/></testcase>'
        code, lines = self.summarize({"unit_x": PASSED, "gpu_x": PASSED, "ctest": ctest})
        self.assertEqual(code, 1)
        self.assertIn("FAILED unit_x: no test of it failed, yet it ended with an error", lines)

    def test_skips_are_listed_and_may_be_refused(self) -> None:
        results = {"unit_x": PASSED, "gpu_x": SKIPPED}
        code, lines = self.summarize(results)
        self.assertEqual(code, 0)
        self.assertIn("skipped (gpu) gpu_x: Suite.C: no GPU here", lines)
        self.assertEqual(lines[-1], "1 passed, 0 failed, 1 skipped")
        self.assertEqual(self.summarize(results, "--fail-on-skip-except", "gpu")[0], 0)
        self.assertEqual(self.summarize(results, "--fail-on-skip-except", "unit")[0], 1)
        both = ["--fail-on-skip-except", "unit", "--fail-on-skip-except", "gpu"]
        self.assertEqual(self.summarize(results, *both)[0], 0)
        self.assertEqual(self.summarize(results, "--skips"), (0, ["skipped by label: gpu 1, unit 0"]))

    def test_nothing_ran(self) -> None:
        code, lines = self.summarize({"unit_x": "", "gpu_x": SKIPPED})
        self.assertEqual(code, 1)
        self.assertIn("no test ran, expected at least one", lines)
        self.assertEqual(lines[-1], "0 passed, 0 failed, 1 skipped")


def main() -> int:
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    output = io.StringIO()
    result = unittest.TextTestRunner(output).run(suite)
    if not result.wasSuccessful():
        print(output.getvalue())
    print(f"{result.testsRun} tests, {len(result.failures) + len(result.errors)} failed")
    return 0 if result.wasSuccessful() else 1


class DigitStringsCase(TreeCase):
    """tools/make_digit_strings.py on a machine whose Python has no numpy."""

    def run_script(self) -> tuple[int, str, str]:
        script = Path(__file__).parent / "make_digit_strings.py"
        numpy = 'raise ModuleNotFoundError("No module named \'numpy\'", name="numpy")\n'
        self.write({"tools/make_digit_strings.py": script.read_text(), "without/numpy.py": numpy})
        result = subprocess.run(
            [sys.executable, str(self.root / "tools/make_digit_strings.py"), "FSDD", "OUT"],
            capture_output=True,
            text=True,
            env=os.environ | {"PYTHONPATH": str(self.root / "without")},
        )
        return result.returncode, result.stdout, result.stderr

    def test_says_what_to_type(self) -> None:
        code, out, err = self.run_script()
        self.assertEqual((code, out), (2, ""))
        self.assertEqual(
            err, "make_digit_strings: the Python package numpy is missing. Type: tools/setup.sh data\n"
        )

    def test_goes_on_with_the_python_of_the_set_up(self) -> None:
        self.write({".deps/data/bin/python": '#!/bin/sh\nshift\necho "went on with $*"\n'})
        (self.root / ".deps/data/bin/python").chmod(0o755)
        self.assertEqual(self.run_script(), (0, "went on with FSDD OUT\n", ""))


if __name__ == "__main__":
    sys.exit(main())
