# find_package(MlirMatrix) defines mlir_matrix_add_suite: tests of mlir-matrix as a target, as tests of CTest, and as tests of lit.
#
#   mlir_matrix_add_suite(NAME
#     TESTS SUITE|GLOB|ID...        as `matrix run` takes them
#     [CATALOG DIR...]              as --catalog
#     [TOOLS [COMPONENT=]TARGET...] programs of this build that are under test; the component is called like the target
#     [LLVM_DIR DIR]                a build or an installation of LLVM and MLIR; default: the pinned release
#     [PIN COMPONENT=RELEASE|DIR...] as --pin
#     [LABELS LABEL...]             of CTest, beside framework, pipeline and target
#     [TIMEOUT SECONDS])            of a test of CTest, which is a cell
#
# It sets MlirMatrix_EXECUTABLE, the program, which the user may set instead.

if(CMAKE_VERSION VERSION_LESS 3.20)
  set(MlirMatrix_FOUND FALSE)
  set(MlirMatrix_NOT_FOUND_MESSAGE
    "MlirMatrix needs CMake 3.20 or newer, as LLVM does, and this is CMake ${CMAKE_VERSION}. To get a newer one: pip install cmake")
  return()
endif()

get_filename_component(_MlirMatrix_tools "${CMAKE_CURRENT_LIST_DIR}/.." REALPATH)
if(EXISTS "${_MlirMatrix_tools}/mlir_matrix/__init__.py")
  # A checkout.
  set(MlirMatrix_PYTHON_DIR "${_MlirMatrix_tools}")
  set(_MlirMatrix_hints "${_MlirMatrix_tools}")
else()
  # PREFIX/lib/python3.N/site-packages/mlir_matrix/_repository/tools
  get_filename_component(MlirMatrix_PYTHON_DIR "${_MlirMatrix_tools}/../../.." REALPATH)
  get_filename_component(_MlirMatrix_hints "${MlirMatrix_PYTHON_DIR}/../../../bin" REALPATH)
endif()
# The program of this module comes before others, such as one below CMAKE_PREFIX_PATH.
find_program(MlirMatrix_EXECUTABLE NAMES matrix mlir-matrix PATHS "${_MlirMatrix_hints}" NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
find_program(MlirMatrix_EXECUTABLE NAMES matrix mlir-matrix NO_CMAKE_FIND_ROOT_PATH)
if(NOT MlirMatrix_EXECUTABLE)
  set(MlirMatrix_FOUND FALSE)
  set(MlirMatrix_NOT_FOUND_MESSAGE
    "the program matrix is neither in ${_MlirMatrix_hints} nor on PATH. Name it: -DMlirMatrix_EXECUTABLE=PATH")
  return()
endif()
execute_process(COMMAND "${MlirMatrix_EXECUTABLE}" --cmakedir
  OUTPUT_VARIABLE _MlirMatrix_dir ERROR_VARIABLE _MlirMatrix_error RESULT_VARIABLE _MlirMatrix_code
  OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT _MlirMatrix_code EQUAL 0 OR NOT _MlirMatrix_dir STREQUAL "${_MlirMatrix_tools}/cmake")
  string(STRIP "${_MlirMatrix_dir}${_MlirMatrix_error}" _MlirMatrix_error)
  set(MlirMatrix_FOUND FALSE)
  set(MlirMatrix_NOT_FOUND_MESSAGE
    "${MlirMatrix_EXECUTABLE} is not the program of ${_MlirMatrix_tools}/cmake; its --cmakedir gives: ${_MlirMatrix_error}. \
Name the program: -DMlirMatrix_EXECUTABLE=PATH")
  return()
endif()

function(mlir_matrix_add_suite name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "LLVM_DIR;TIMEOUT" "TESTS;CATALOG;TOOLS;PIN;LABELS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "mlir_matrix_add_suite(${name}): unknown words: ${arg_UNPARSED_ARGUMENTS}; "
      "it takes TESTS, CATALOG, TOOLS, LLVM_DIR, PIN, LABELS, TIMEOUT")
  elseif(NOT arg_TESTS)
    message(FATAL_ERROR "mlir_matrix_add_suite(${name}): TESTS names no suite and no test; to list them: "
      "${MlirMatrix_EXECUTABLE} list suites")
  elseif(DEFINED arg_TIMEOUT AND NOT arg_TIMEOUT MATCHES "^[0-9]+$")
    message(FATAL_ERROR "mlir_matrix_add_suite(${name}): TIMEOUT ${arg_TIMEOUT}: expected a number of seconds")
  endif()

  set(options)
  foreach(catalog IN LISTS arg_CATALOG)
    get_filename_component(catalog "${catalog}" ABSOLUTE)
    if(NOT IS_DIRECTORY "${catalog}")
      message(FATAL_ERROR "mlir_matrix_add_suite(${name}): CATALOG ${catalog}: there is no such folder")
    endif()
    list(APPEND options --catalog "${catalog}")
  endforeach()
  if(arg_LLVM_DIR)
    # LLVM's own package sets LLVM_DIR to the folder of its module, which Debian's package also has as PREFIX/cmake.
    get_filename_component(llvm "${arg_LLVM_DIR}" ABSOLUTE)
    string(REGEX REPLACE "/(lib(64)?/)?cmake(/(llvm|mlir))?$" "" llvm "${llvm}")
    list(APPEND options --pin "llvm=${llvm}")
  endif()
  set(targets)
  foreach(tool IN LISTS arg_TOOLS)
    string(REGEX REPLACE "^.*=" "" target "${tool}")
    string(REGEX REPLACE "=.*$" "" component "${tool}")
    if(NOT TARGET ${target})
      message(FATAL_ERROR "mlir_matrix_add_suite(${name}): TOOLS ${tool}: there is no target ${target}; "
        "call mlir_matrix_add_suite after add_executable(${target} ...)")
    endif()
    list(APPEND targets ${target})
    list(APPEND options --pin "${component}=$<TARGET_FILE_DIR:${target}>")
  endforeach()
  foreach(pin IN LISTS arg_PIN)
    list(APPEND options --pin "${pin}")
  endforeach()

  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${name}")
  file(MAKE_DIRECTORY "${folder}")
  add_custom_target(${name}
    COMMAND "${MlirMatrix_EXECUTABLE}" run ${options} --junit "${folder}/junit.xml" --results "${folder}/results.json" ${arg_TESTS}
    WORKING_DIRECTORY "${folder}" USES_TERMINAL VERBATIM
    COMMENT "Running mlir-matrix: ${arg_TESTS}")
  if(targets)
    add_dependencies(${name} ${targets})
  endif()

  # CTest plans the tests when it starts: the tools are built then, and the catalogs may have changed.
  _mlir_matrix_quoted(tests ${arg_TESTS})
  _mlir_matrix_quoted(options ${options})
  set(labels)
  foreach(label IN LISTS arg_LABELS)
    string(APPEND labels ";${label}")
  endforeach()
  set(limit)
  if(DEFINED arg_TIMEOUT)
    set(limit "set_tests_properties(\${MlirMatrix_TESTS} PROPERTIES TIMEOUT ${arg_TIMEOUT})")
  endif()
  file(GENERATE OUTPUT "${folder}/ctest.cmake" CONTENT "\
set(MlirMatrix_PREFIX \"${name}/\")
set(MlirMatrix_LABELS \"${labels}\")
set(MlirMatrix_TESTS)
execute_process(COMMAND \"${MlirMatrix_EXECUTABLE}\" plan --format ctest ${options} ${tests}
  WORKING_DIRECTORY \"${folder}\" OUTPUT_FILE \"${folder}/cells.cmake\"
  ERROR_FILE \"${folder}/plan.log\" RESULT_VARIABLE MlirMatrix_code)
if(MlirMatrix_code EQUAL 0)
  include(\"${folder}/cells.cmake\")
  ${limit}
else()
  # For example, the tools are not built.
  add_test(\"${name}\" /bin/sh -c \"cat \\\"$0\\\"; exit 1\" \"${folder}/plan.log\")
endif()
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${folder}/ctest.cmake")

  string(REPLACE "\" \"" "\", \"" tests "${tests}")
  string(REPLACE "\" \"" "\", \"" options "${options}")
  file(GENERATE OUTPUT "${folder}/lit.cfg.py" CONTENT "\
import sys
sys.path.append(\"${MlirMatrix_PYTHON_DIR}\")
import mlir_matrix.lit
config.name = \"${name}\"
config.test_format = mlir_matrix.lit.Matrix([${tests}], [${options}], program=\"${MlirMatrix_EXECUTABLE}\")
")
endfunction()

# Set a variable to words as CMake and Python quote them.
function(_mlir_matrix_quoted variable)
  set(quoted)
  foreach(word IN LISTS ARGN)
    if(word MATCHES "[\"\\\\]")
      message(FATAL_ERROR "mlir_matrix_add_suite: '${word}' has a quote or a backslash")
    endif()
    list(APPEND quoted "\"${word}\"")
  endforeach()
  list(JOIN quoted " " quoted)
  set(${variable} "${quoted}" PARENT_SCOPE)
endfunction()
