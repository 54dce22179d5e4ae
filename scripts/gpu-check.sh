#!/usr/bin/env bash
# Runs all checks that need a GPU, in parts of less than 9 minutes each, on a machine with a GPU and a CUDA toolkit, without a
# network: build, tests, PyTorch's values, equal bits for all cuts, MNIST, the speed of ResNet-50, compute-sanitizer. The last
# output is a table. docs/gpu.md has more.
#
#   scripts/gpu-check.sh --pack DIR              collects the packages that the GPU machine may lack, in DIR/gpu-pack.tar.gz
#   scripts/gpu-check.sh [--parts PARTS] [DIR]   runs the checks, with the pack in DIR if it exists. PARTS are some of
#                                                smoke,tests,figures,trainings,lockstep,processes,sanitizers (default:
#                                                all, while time is left). smoke usually takes three minutes; run it first.
#                                                Each part builds what it needs, so that each may meet a fresh machine
#   scripts/gpu-check.sh --self-test             without a GPU: preflight, steps, figures, table and pack
#
# table.txt, log.txt, kernels.txt and the timelines lie in $OUT (build-gpu/out). Exit status 1 when any step failed. A step that
# fails does not stop the others, except the preflight, and a build without gpipe-train.
set -uo pipefail
cd "$(dirname "$0")/.." || exit

here=$PWD
self=$here/scripts/gpu-check.sh
work=${GPU_CHECK_WORK:-$here/build-gpu}
out=${OUT:-$work/out}
case $out in /*) ;; *) out=$here/$out ;; esac
build=$work/build
pack=$work/pack
all_parts=smoke,tests,figures,trainings,lockstep,processes,sanitizers
parts=$all_parts
driver='' peak='' # of the GPU, as text
steps=$work/steps # NAME.log, NAME.figure and NAME.row of each
program=$build/gpipe-train
compare=${GPU_CHECK_COMPARE:-$here/scripts/compare-timelines.py}
seconds_for_all=${GPU_CHECK_SECONDS:-530}
# Exit statuses of a step: what is not there is told in its figure.
skipped=77

figure() { printf '%s' "$*" >"$steps/$name.figure"; }
skip() {
    figure "$*"
    exit "$skipped"
}
figures() { python3 -B "$here/scripts/gpu-figures.py" "$@"; }

# ---- what the machine has -----------------------------------------------------------------------------------------------

ask_gpu() { nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -n 1; }

find_toolkit() {
    local tool=$1 folder
    if command -v "$tool"; then return; fi
    for folder in /usr/local/cuda/bin /usr/local/cuda/compute-sanitizer /opt/nvidia/nsight-systems/*/bin; do
        if [ -x "$folder/$tool" ]; then
            printf '%s\n' "$folder/$tool"
            return
        fi
    done
    return 1
}

# Folders of Python packages of NVIDIA's, which bring cuDNN and cuBLASLt where the toolkit does not.
python_folders() {
    python3 - <<'PYTHON' 2>/dev/null
import glob, os, sys
for root in sys.path:
    for folder in sorted(glob.glob(os.path.join(root, "nvidia", "*"))):
        if os.path.isdir(folder):
            print(folder)
PYTHON
}

has_file() { compgen -G "$1/$2" >/dev/null; }

# The environment of every step. cuDNN and cuBLASLt are opened by name: from the toolkit, or from Python's packages.
find_machine() {
    local folder first='' behind=''
    PATH=$PATH:/usr/local/cuda/bin
    while read -r folder; do
        if ! has_file "$folder/lib" 'lib*.so*'; then continue; fi
        if has_file "$folder/lib" libcudnn.so.9 && ! has_file '/usr/local/cuda/lib*' libcudnn.so.9; then
            first=$folder/lib:
            if [ -e "$folder/include/cudnn.h" ]; then GPU_CUDNN_INCLUDE=${GPU_CUDNN_INCLUDE:-$folder/include}; fi
        else
            behind+=:$folder/lib
        fi
    done < <(python_folders)
    # PyTorch brings libraries of its own. What Python has said is in the log when its time is over.
    export GPU_OUTER_LIBRARY_PATH=${LD_LIBRARY_PATH:-} PYTHONUNBUFFERED=1
    export GPIPE_PROGRAM=$program PATH LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$first/usr/local/cuda/lib64$behind
    # Which engines were chosen on other machines, or by other versions, is nothing to this one.
    export GPU_CUDNN_INCLUDE=${GPU_CUDNN_INCLUDE:-} OMP_WAIT_POLICY=passive XDG_CACHE_HOME=$work/cache
    GPU_ARCHITECTURE=$(ask_gpu compute_cap | tr -d '.')
    GPU_NAME=$(ask_gpu name)
    export GPU_ARCHITECTURE GPU_NAME
    driver=$(ask_gpu driver_version)
    peak=$(figures peak "${GPU_NAME:-none}")
    if [ -z "${GPIPE_TEST_DATA:-}" ] && [ -d "$pack/data/mnist" ]; then export GPIPE_TEST_DATA=$pack/data; fi
    if [ -d "$pack/include" ]; then
        # The toolkit's headers come before those of pack/cuda, which are there where it has none.
        export C_INCLUDE_PATH=$pack/include:$pack/cuda CPLUS_INCLUDE_PATH=$pack/include:$pack/cuda
        export PKG_CONFIG_PATH=$pack/lib/pkgconfig
    fi
}

# ---- the pack -----------------------------------------------------------------------------------------------------------

packed_libraries=(yaml jansson xxhash z cmocka)
packed_modules=(yaml-0.1 jansson libxxhash zlib cmocka)

pack_library() {
    local library=$1 path name
    path=$(readlink -f "$(gcc -print-file-name="lib$library.so")")
    name=$(objdump -p "$path" | awk '$1 == "SONAME" { print $2 }')
    cp "$path" "$2/lib/$name"
    ln -s "$name" "$2/lib/lib$library.so"
}

# As the compiler finds them, whatever folder that is.
pack_headers() {
    local path
    printf '#include <%s>\n' stdarg.h stddef.h stdint.h setjmp.h yaml.h jansson.h zlib.h xxhash.h xxh3.h cmocka.h |
        gcc -M -x c - | grep -oE '[^ ]+\.h' | grep -E '/(yaml|jansson(_config)?|zlib|zconf|xxhash|xxh3|cmocka)\.h$' |
        while read -r path; do cp "$path" "$1/include/"; done
    # What a toolkit may come without; behind its own headers where it has them.
    mkdir -p "$1/cuda"
    find /usr/local/cuda/include/ /usr/include/ -maxdepth 1 \( -name 'cudnn*.h' -o -name cublasLt.h -o -name cublas_api.h \) \
        -exec cp -Lt "$1/cuda" {} + 2>/dev/null
    for path in /usr/local/cuda/include/nvtx3 /usr/include/nvtx3; do
        if [ -d "$path" ]; then
            cp -RL "$path" "$1/cuda/"
            break
        fi
    done
    return 0
}

pack_modules() {
    local i module
    for i in "${!packed_modules[@]}"; do
        module=${packed_modules[i]}
        # shellcheck disable=SC2016 # pkg-config's own variable
        printf '%s\n' "Name: $module" 'Description: packed' "Version: $(pkg-config --modversion "$module")" \
            'Cflags: -I${pcfiledir}/../../include' "Libs: -L\${pcfiledir}/.. -l${packed_libraries[i]}" \
            >"$1/lib/pkgconfig/$module.pc"
    done
    cp "$(readlink -f "$(command -v pkg-config)")" "$1/bin/pkgconf"
    ldd "$1/bin/pkgconf" | awk '/libpkgconf/ { print $3 }' | while read -r path; do cp "$path" "$1/bin/"; done
}

pack_data() {
    local folder
    for folder in "${GPIPE_TEST_DATA:+$GPIPE_TEST_DATA/mnist}" data/mnist ../shared/data/mnist; do
        if [ -n "$folder" ] && [ -e "$folder/t10k-images-idx3-ubyte.gz" ]; then
            cp "$folder"/*-ubyte.gz "$1/data/mnist/"
            chmod u+w "$1"/data/mnist/*
            return
        fi
    done
    echo "gpu-check: no MNIST data: MNIST will not be trained"
}

make_pack() {
    local target=$1 scratch library size
    scratch=$(mktemp -d) || return 1
    mkdir -p "$target" "$scratch"/{include,bin,lib/pkgconfig,data/mnist,onednn} || return 1
    for library in "${packed_libraries[@]}"; do pack_library "$library" "$scratch" || return 1; done
    cp -L "$(gcc -print-file-name=libgomp.so.1)" "$scratch/lib/" || return 1
    pack_headers "$scratch" && pack_modules "$scratch" && pack_data "$scratch" || return 1
    if [ -e .deps/onednn/lib/libdnnl.so.3 ]; then cp -R .deps/onednn/include .deps/onednn/lib "$scratch/onednn/"; fi
    tar -C "$scratch" -czf "$target/gpu-pack.tar.gz" . || return 1
    rm -rf "$scratch"
    size=$(stat -c %s "$target/gpu-pack.tar.gz")
    printf 'gpu-check: %s: %d.%d MiB\n' "$target/gpu-pack.tar.gz" $((size >> 20)) $(((size & 1048575) * 10 >> 20))
    if [ "$size" -ge $((60 << 20)) ]; then
        echo "gpu-check: the pack has 60 MiB or more, which is too large"
        return 1
    fi
}

unpack() {
    rm -rf "$pack"
    if [ -n "$1" ] && [ -e "$1/gpu-pack.tar.gz" ]; then
        mkdir -p "$pack"
        tar -C "$pack" -xzf "$1/gpu-pack.tar.gz"
    fi
}

# ---- steps: each runs in a process of its own, with its name in $name ----------------------------------------------------

# Warnings of a compiler that nobody here has seen cost the figures nothing: they are in the log.
write_compiler() {
    local path
    path=$(command -v "$1") || skip "there is no $1"
    printf '#!/bin/sh\nexec %s "$@" -Wno-error\n' "$path" >"$work/bin/$1"
    chmod +x "$work/bin/$1"
}

# Seconds, before minutes of building are spent: whether anything can run at all. The figure is the sentence of what cannot.
step_preflight() {
    local nvcc tool
    for tool in cmake gcc g++ python3; do
        command -v "$tool" >/dev/null || {
            figure "there is no $tool"
            return 1
        }
    done
    if ! command -v pkg-config >/dev/null && [ ! -e "$pack/bin/pkgconf" ]; then
        figure "there is no pkg-config, and no pack"
        return 1
    fi
    if ! [ -e "$pack/onednn/lib" ] && ! [ -e "$here/.deps/onednn/lib" ] && [ "$(gcc -print-file-name=libdnnl.so)" = libdnnl.so ]; then
        figure "there is no oneDNN, and none in the pack"
        return 1
    fi
    nvcc=$(command -v nvcc) || {
        figure "there is no nvcc"
        return 1
    }
    if ! "$nvcc" -arch="sm_${GPU_ARCHITECTURE:-90}" tests/gpu/preflight.cu -o "$steps/preflight" -ldl; then
        figure "nvcc cannot build a kernel: see log.txt"
        return 1
    fi
    "$steps/preflight" >"$steps/$name.said"
    local status=$?
    cat "$steps/$name.said"
    figure "$(tail -n 1 "$steps/$name.said")"
    return "$status"
}

step_build() {
    # Programs of an earlier build do not stand for those that do not link now.
    rm -f "$program" "$build"/tests/test_gpu_* "$build"/tests/{fill_weights,count_work,time_ops}
    local options=(-DCMAKE_BUILD_TYPE=Release -DGP_CUDA=ON -DGP_CUDA_WERROR=OFF) generator=Ninja
    options+=("-DCMAKE_CUDA_ARCHITECTURES=${GPU_ARCHITECTURE:-90}-real")
    mkdir -p "$work/bin"
    write_compiler gcc
    write_compiler g++
    options+=("-DCMAKE_C_COMPILER=$work/bin/gcc" "-DCMAKE_CXX_COMPILER=$work/bin/g++")
    options+=("-DCMAKE_CUDA_HOST_COMPILER=$work/bin/g++")
    if [ -n "$GPU_CUDNN_INCLUDE" ]; then
        options+=("-DGP_CUDNN_INCLUDE=$GPU_CUDNN_INCLUDE")
    elif [ -e "$pack/cuda/cudnn.h" ] && ! has_file /usr/local/cuda/include cudnn.h; then
        options+=("-DGP_CUDNN_INCLUDE=$pack/cuda")
    fi
    if [ -d "$pack/lib" ]; then options+=("-DCMAKE_PREFIX_PATH=$pack"); fi
    if [ -d "$pack/onednn/lib" ]; then options+=("-DGP_ONEDNN_DIR=$pack/onednn"); fi
    if ! command -v pkg-config >/dev/null && [ -e "$pack/bin/pkgconf" ]; then
        printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$pack/bin" "$pack/bin/pkgconf" >"$work/bin/pkg-config"
        chmod +x "$work/bin/pkg-config"
        options+=("-DPKG_CONFIG_EXECUTABLE=$work/bin/pkg-config")
    fi
    command -v ninja >/dev/null || generator="Unix Makefiles"
    # The build folder may be of another part.
    if is_part processes; then options+=(-DGP_MPI=AUTO); else options+=(-DGP_MPI=OFF); fi
    cmake -S "$here" -B "$build" -G "$generator" "${options[@]}" || return 1
    figure "sm_${GPU_ARCHITECTURE:-90}, $(nproc) processors, $(nvcc --version | sed -n 's/.*release \([0-9.]*\).*/nvcc \1/p')"
    # What does not link costs only its own steps.
    local goes_on=(-k 0) targets=()
    [ "$generator" = Ninja ] || goes_on=(-k)
    read -ra targets < <(list_targets)
    cmake --build "$build" -j "$(nproc)" ${targets[0]:+--target "${targets[@]}"} -- "${goes_on[@]}"
}

# What the parts need; nothing: all, for the tests that are no GPU's.
list_targets() {
    if is_part sanitizers; then return; fi
    printf 'gpipe-train'
    if is_part smoke; then printf ' test_gpu_device'; fi
    if is_part tests; then printf ' test_gpu_%s' device ops profile train wide fault; fi
    if is_part trainings; then printf ' fill_weights'; fi
    if is_part figures; then printf ' count_work time_ops'; fi
    echo
}

# Of ctest: what it says is skipped did not meet the GPU.
run_tests() {
    local status=0 log=$steps/$name.ctest
    ctest --test-dir "$build" --output-on-failure --no-tests=error --timeout 200 "$@" </dev/null | tee "$log" || status=1
    figure "$(sed -n 's/^\(.*tests passed.*out of.*\)$/\1/p' "$log"), $(grep -c 'Skipped  ' "$log") skipped"
    return "$status"
}

# One program with label gpu. Its own limit is the step's: ctest's is for machines that only look for hangs.
gpu_test() {
    [ -x "$build/tests/test_$name" ] || skip "test_$name is not built"
    "$build/tests/test_$name"
    local status=$?
    figure "$(sed -n 's/^\[  PASSED  \] \(.*\)\./\1 passed/p; s/^\[  SKIPPED \] \([0-9].*\), listed below:/\1 skipped/p; s/^skipped: //p' "$steps/$name.log" | paste -sd, | sed 's/,/, /g')"
    # What is skipped did not meet the GPU.
    [ "$status" != "$skipped" ] || status=1
    return "$status"
}

step_gpu_device() { gpu_test; }
step_gpu_ops() { gpu_test; }
step_gpu_profile() { gpu_test; }
step_gpu_train() { gpu_test; }
# Tensors of 2^31 elements, for kernels with wide indices.
step_gpu_wide() { gpu_test; }

# A kernel that fails, and a GPU that hangs, in processes of their own.
step_gpu_fault() { gpu_test; }

# Processes have a part of their own.
step_other_tests() { run_tests -LE 'gpu|training' -E '^(gpu_check|cli_processes|cli_links)$' -j "$(nproc)"; }

sanitize() {
    local tool=$1 sanitizer
    shift
    sanitizer=$(find_toolkit compute-sanitizer) || skip "compute-sanitizer is not there"
    # Events that have not happened yet are no errors.
    local options=(--tool "$tool" --error-exitcode 9 --print-limit 20 --report-api-errors no)
    # Shared memory: of our own kernels. What libraries do there is theirs.
    if [ "$tool" != memcheck ]; then
        case $("$sanitizer" --help 2>&1) in
        *--kernel-name*) options+=(--kernel-name kns=gp_kernel) ;;
        *--kernel-regex*) options+=(--kernel-regex kns=gp_kernel) ;;
        esac
    fi
    "$sanitizer" "${options[@]}" "$@"
    local status=$?
    if grep -q 'Device not supported' "$steps/$name.log"; then skip "compute-sanitizer does not know this device"; fi
    figure "$(sed -n 's/^========= \(.*SUMMARY.*\)/\1/p' "$steps/$name.log" | tail -n 1)"
    return "$status"
}

step_memcheck_kernels() { sanitize memcheck "$build/tests/test_gpu_ops" 6 test_own_kernels; }
step_memcheck_ops() { sanitize memcheck "$build/tests/test_gpu_ops" 6; }
step_racecheck_ops() { sanitize racecheck "$build/tests/test_gpu_ops" 6 test_own_kernels; }
step_synccheck_ops() { sanitize synccheck "$build/tests/test_gpu_ops" 6 test_own_kernels; }
# Reads of memory that nothing has written: by our own kernels. What libraries leave unwritten in workspaces is theirs.
step_initcheck_ops() { sanitize initcheck "$build/tests/test_gpu_ops" 6 test_own_kernels; }
step_initcheck_training() { sanitize initcheck "$build/tests/test_gpu_train" test_smallest; }
step_memcheck_training() { sanitize memcheck "$build/tests/test_gpu_train" test_smallest; }
step_racecheck_training() { sanitize racecheck "$build/tests/test_gpu_train" test_smallest; }
step_synccheck_training() { sanitize synccheck "$build/tests/test_gpu_train" test_smallest; }

# PyTorch's values, through the program; the largest difference that the test prints.
golden() {
    local script=$1
    shift
    (cd "$steps" && python3 -B "$here/tests/golden/$script.py" "$here/scripts/on-gpu.sh" "$@")
    local status=$?
    local most
    most=$(sed -n 's/.*\(difference\|differs by\) \([0-9.e+-]*[0-9]\).*/\2/p' "$steps/$name.log" | sort -g | tail -n 1)
    figure "${most:+differs by $most at most}"
    return "$status"
}

step_golden_training() { golden test_training; }
step_golden_predictions() { golden test_predictions; }
step_golden_optimizers() { golden test_optimizers; }
step_golden_clipping() { golden test_clipping; }
step_golden_models() { golden test_models "$build/tests/fill_weights" evaluate; }
step_golden_resnets() { golden test_models "$build/tests/fill_weights" train; }

step_mnist() {
    local status=0
    python3 -B "$here/tests/cli/test_cli.py" "$here/scripts/on-gpu.sh" mnist || status=$?
    [ "$status" != "$skipped" ] || skip "MNIST is not there"
    local last
    last=$(sed -n 's/.*accuracy after each epoch: .*\(0\.[0-9]*\)$/\1/p' "$steps/$name.log" | paste -sd ' ')
    figure "${last:+accuracy $last after the last epoch}"
    return "$status"
}

# A ResNet-18, cut over one GPU: the model must be the same to the bit.
launcher=()
train_cut() {
    local run=$1
    shift
    "${launcher[@]}" "$program" -q --force -o "$steps/$name.$run" --set 'data.train.synthetic.samples=64' --set 'data.eval.synthetic.samples=32' \
        --set 'train={steps: 15, seed: 1}' "$@" configs/resnet-synthetic.yaml || return 1
    sha256sum <"$steps/$name.$run/model.safetensors" | tee -a "$steps/$name.sums"
}

bits() {
    local two='pipeline.devices=[cuda:0, cuda:0]' four='pipeline.devices=[cuda:0, cuda:0, cuda:0, cuda:0]'
    rm -f "$steps/$name.sums"
    train_cut one "$@" --set 'pipeline.devices=[cuda:0]' || return 1
    train_cut two "$@" --set "$two" --set pipeline.checkpoint=always || return 1
    train_cut two_free "$@" --set "$two" --set pipeline.lockstep=false --set pipeline.balance=size || return 1
    train_cut four "$@" --set "$four" --set pipeline.checkpoint=never || return 1
    train_cut four_free "$@" --set "$four" --set pipeline.lockstep=false || return 1
    figure "$(wc -l <"$steps/$name.sums") cuts over 1, 2 and 4 stages, $(sort -u "$steps/$name.sums" | wc -l) model"
    [ "$(sort -u "$steps/$name.sums" | wc -l)" = 1 ]
}

# Two processes on one GPU, whose messages go through the host and MPI: the model of one process, to the bit.
step_two_processes() {
    local two='pipeline.devices=[{cuda:0: {rank: 0}}, {cuda:0: {rank: 1}}]'
    command -v mpirun >/dev/null || skip "there is no mpirun"
    "$program" --version | grep -q '^MPI: none$' && skip "gpipe-train is built without MPI"
    rm -f "$steps/$name.sums"
    train_cut one --set 'pipeline.devices=[cuda:0]' || return 1
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    launcher=(mpirun --bind-to none --oversubscribe -np 2)
    train_cut two --set "$two" || return 1
    train_cut two_1f1b --set "$two" --set pipeline.schedule=1f1b || return 1
    figure "$(wc -l <"$steps/$name.sums") runs of 1 and 2 processes, $(sort -u "$steps/$name.sums" | wc -l) model"
    [ "$(sort -u "$steps/$name.sums" | wc -l)" = 1 ]
}

step_bits_f32() { bits --set train.precision=f32; }
step_bits_tf32() { bits --set train.precision=tf32; }

# Images per second, beside the floor that counted operations and bytes give; the last few steps leave a timeline.
measure() {
    local precision=$1
    "$build/tests/count_work" tests/gpu/resnet50.yaml "train.precision=$precision" >"$steps/$name.work" || return 1
    "$program" -q --force -o "$steps/$name.run" --set "train.precision=$precision" --trace "$out/$name.trace.json" --trace-steps 33:36 \
        tests/gpu/resnet50.yaml || return 1
    figure "$(figures rate "$steps/$name.run/metrics.jsonl" "$steps/$name.work" "$GPU_NAME" "$precision")" || return 1
    gzip -f "$out/$name.trace.json"
}

# Two steps: whether it trains at all, and about how long a step takes.
step_two_steps() {
    "$program" --force -o "$steps/$name.run" --set train.precision=f32 --set train.steps=2 tests/gpu/resnet50.yaml || return 1
    figure "$(sed -n 's/^done: //p' "$steps/$name.log" | tail -n 1)"
}

step_resnet50_f32() { measure f32; }
step_resnet50_tf32() { measure tf32; }

# Micro-batches of four pictures: about a millisecond each.
step_enqueue() {
    "$program" -q --force -o "$steps/$name.run" --set train.precision=tf32 --set data.batch=64 --set pipeline.micro_batches=16 \
        --trace "$out/$name.trace.json" --trace-steps 33:36 tests/gpu/resnet50.yaml || return 1
    figure "$(figures enqueue "$out/$name.trace.json" "$steps/$name.run/metrics.jsonl")" || return 1
    gzip -f "$out/$name.trace.json"
}

# Ops of ResNet-50 by events, beside their bytes and the bandwidth of a copy.
op_times() {
    "$build/tests/time_ops" tests/gpu/resnet50.yaml "train.precision=$1" >"$steps/$name.times" || return 1
    printf 'ResNet-50, %s, one micro-batch\n' "$1" >>"$out/kernels.txt"
    figure "$(figures ops "$steps/$name.times" "$GPU_NAME" "$out/kernels.txt")"
}

step_ops_f32() { op_times f32; }
step_ops_tf32() { op_times tf32; }

# Own kernels of one step, by hardware counters.
step_ncu() {
    local profiler
    profiler=$(find_toolkit ncu) || skip "ncu is not there"
    "$profiler" --clock-control none --csv --page raw --print-units base --kernel-name regex:gp_kernel --launch-skip 400 \
        --launch-count 400 --metrics "gpu__time_duration.sum,dram__bytes.sum" \
        "$program" -q --force -o "$steps/$name.run" --set train.steps=2 tests/gpu/resnet50.yaml >"$steps/$name.csv" || return 1
    printf 'measured by Nsight Compute: some launches of the first step\n' >>"$out/kernels.txt"
    figure "$(figures ncu "$steps/$name.csv" "$out/kernels.txt")"
}

# What cutting into micro-batches costs: one of 128 pictures, four of 128, four of 32.
step_micro_batches() {
    local run micro size
    for run in 1:128 4:512 4:128; do
        micro=${run%:*} size=${run#*:}
        "$program" -q --force -o "$steps/$name.$micro.$size" --set train.precision=tf32 --set "data.batch=$size" \
            --set data.train.synthetic.samples=2048 --set "pipeline.micro_batches=$micro" tests/gpu/resnet50.yaml || return 1
    done
    figure "$(figures micro "$steps/$name".{1.128,4.512,4.128}/metrics.jsonl)"
}

# Ours beside it where the steps before have measured it.
step_pytorch() {
    local status=0
    env -u LD_LIBRARY_PATH ${GPU_OUTER_LIBRARY_PATH:+"LD_LIBRARY_PATH=$GPU_OUTER_LIBRARY_PATH"} \
        python3 -B bench/pytorch_gpu.py --out "$steps/$name.json" || status=$?
    if [ "$status" = "$skipped" ]; then skip "$(sed -n 's/^skipped: //p' "$steps/$name.log" | tail -n 1)"; fi
    [ "$status" = 0 ] || return 1
    figure "$(figures pytorch "$steps/$name.json" "$steps/resnet50_f32.run/metrics.jsonl" "$steps/resnet50_tf32.run/metrics.jsonl")"
}

# $1 stages of the same ResNet-50 on one GPU, with and without lockstep; each further word is a number of micro-batches. The
# timelines are compared: a line in the table, all of it in lockstep.txt.
lockstep() {
    local stages=$1 micro on devices words=()
    shift
    devices=$(yes cuda:0 | head -n "$stages" | paste -sd ,)
    for micro in "$@"; do
        for on in true false; do
            "$program" -q --force -o "$steps/$name.run" --trace "$steps/$name.$micro.$on.json" --trace-steps 10:17 \
                --set train.precision=tf32 --set train.steps=18 --set data.batch=64 --set "pipeline.micro_batches=$micro" \
                --set "pipeline.devices=[$devices]" --set "pipeline.lockstep=$on" tests/gpu/resnet50.yaml || return 1
        done
        compare_lockstep "$stages stages, $micro micro-batches" "$steps/$name.$micro".{true,false}.json || return 1
        words+=("$micro" "$steps/$name.$micro.compared")
    done
    figure "$(figures lockstep "${words[@]}")"
}

# $2 and $3: with and without lockstep.
compare_lockstep() {
    local title=$1
    shift
    "$compare" --names lockstep,free --json "$@" >"${1%.true.*}.compared" || return 1
    { printf '%s\n' "$title" && "$compare" --names lockstep,free "$@" && echo; } >>"$out/lockstep.txt"
}

step_lockstep_2() { lockstep 2 4 16; }
step_lockstep_4() { lockstep 4 4 16; }
# Four stages have 16 streams: with 8 connections CUDA may let one wait for another. The program sets 32.
step_lockstep_4_few() { CUDA_DEVICE_MAX_CONNECTIONS=8 lockstep 4 4; }

# The same for two stages by Nsight Systems, which sees kernels and copies as the GPU ran them.
step_nsys() {
    local on
    find_toolkit nsys >/dev/null || skip "nsys is not there"
    for on in true false; do
        "$here/scripts/nsys-profile.sh" --force --steps 10:13 -o "$steps/$name.4.$on" tests/gpu/resnet50.yaml -q \
            --set train.precision=tf32 --set data.batch=64 --set pipeline.micro_batches=4 \
            --set 'pipeline.devices=[cuda:0, cuda:0]' --set "pipeline.lockstep=$on" || return 1
    done
    compare_lockstep "2 stages, 4 micro-batches, by Nsight Systems" "$steps/$name.4".{true,false}.sqlite || return 1
    figure "$(figures lockstep 4 "$steps/$name.4.compared")"
    # What is larger does not come back from that machine.
    if [ "$(stat -c %s "$steps/$name.4.true.nsys-rep")" -lt $((16 << 20)) ]; then
        cp "$steps/$name.4.true.nsys-rep" "$out/profile.nsys-rep"
    else
        figure "$(cat "$steps/$name.figure"); the profile has 16 MiB or more"
    fi
}

# ---- running them ---------------------------------------------------------------------------------------------------------

names=()

# One step with its limit in seconds, or what is left of all.
run_step() {
    local name=$1 limit=$2 began=$SECONDS result=ok left status
    left=$((seconds_for_all - SECONDS))
    [ "$limit" -le "$left" ] || limit=$left
    if [ "$limit" -lt 1 ]; then
        printf '%s\tno time\t0\t\n' "$name" >"$steps/$name.row"
        return
    fi
    rm -f "$steps/$name.figure"
    GPU_CHECK_PARTS=$parts timeout -k 5 "$limit" bash "$self" --step "$name" >"$steps/$name.log" 2>&1 </dev/null
    status=$?
    case $status in
    0) ;;
    "$skipped") result=skipped ;;
    124 | 137) result="time out" ;;
    *) result=FAILED ;;
    esac
    printf '%s\t%s\t%s\t%s\n' "$name" "$result" $((SECONDS - began)) "$(cat "$steps/$name.figure" 2>/dev/null)" >"$steps/$name.row"
    printf '== %s: %s (%d s so far)\n' "$name" "$result" "$SECONDS"
}

# NAME LIMIT …: beside one another; for what is not timed.
together() {
    while [ $# -gt 0 ]; do
        names+=("$1")
        run_step "$1" "$2" &
        shift 2
    done
    wait
    report
}

alone() {
    names+=("$1")
    run_step "$1" "$2"
    report
}

# After each group, so that what there is survives an end from outside.
report() {
    local name
    for name in "${names[@]}"; do cat "$steps/$name.row"; done >"$work/rows"
    {
        printf '%s\n%s, driver %s, %s\n' "$(date -u +%Y-%m-%d) $(git -C "$here" describe --always --dirty 2>/dev/null)" \
            "${GPU_NAME:-no GPU}" "${driver:-none}" "${peak:-}"
        figures table "$work/rows" || cat "$work/rows"
    } >"$out/table.txt"
    for name in "${names[@]}"; do
        printf '\n==== %s\n' "$name"
        [ ! -e "$steps/$name.log" ] || tail -c 300000 "$steps/$name.log"
    done >"$out/log.txt"
}

run_all() {
    mkdir -p "$out" "$steps" || return 1
    # What an earlier run left is not this one's.
    rm -rf "$steps"/*.row "$steps"/*.figure "$out"/*.trace.json* "$out/kernels.txt" "$out/lockstep.txt" "$work/cache"
    unpack "$1" || return 1
    find_machine
    if ! is_ok preflight 60 || { ! is_ok build 240 && [ ! -x "$program" ]; }; then
        finish
        return 1
    fi
    if is_part smoke; then run_smoke; fi
    if is_part tests; then run_gpu_tests; fi
    if is_part figures; then run_figures; fi
    if is_part trainings; then run_trainings; fi
    if is_part lockstep; then run_lockstep; fi
    if is_part processes; then alone two_processes 120; fi
    if is_part sanitizers; then run_sanitizers; fi
    finish
}

is_part() { [[ ,$parts, == *,"$1",* ]]; }

is_ok() {
    alone "$@"
    grep -q $'^[^\t]*\tok\t' "$steps/$1.row"
}

run_smoke() {
    is_part tests || alone gpu_device 30
    alone two_steps 40
}

# gpu_train does some 90 trainings. Each makes new streams, and each stream finalises its plans again.
run_gpu_tests() {
    alone gpu_device 60
    alone gpu_ops 120
    alone gpu_profile 60
    alone gpu_train 300
    alone gpu_wide 60
    alone gpu_fault 60
}

run_trainings() {
    together bits_f32 100 bits_tf32 100 mnist 120 golden_training 60 golden_predictions 100 golden_clipping 100 golden_models 100 \
        golden_resnets 150
    alone golden_optimizers 150 # starts the program 80 times
}

run_figures() {
    alone resnet50_f32 60
    alone resnet50_tf32 60
    alone enqueue 40
    alone ops_f32 60
    alone ops_tf32 60
    alone micro_batches 100
    alone pytorch 120
    alone ncu 100
}

run_lockstep() {
    alone lockstep_2 150
    alone lockstep_4 150
    alone lockstep_4_few 60
    alone nsys 150
}

run_sanitizers() {
    # Our own kernels first.
    together memcheck_kernels 120 racecheck_ops 120 synccheck_ops 120 initcheck_ops 120
    together memcheck_ops 200 memcheck_training 200 racecheck_training 200 synccheck_training 200 initcheck_training 200
    alone other_tests 160
}

finish() {
    cat "$out/table.txt"
    ! grep -qvE $'^[^\t]*\t(ok|skipped)\t' "$work/rows"
}

# ---- without a GPU --------------------------------------------------------------------------------------------------------

must() { "$@" || { echo "gpu-check: self-test: \"$*\" failed" && exit 1; }; }

step_self_good() { figure "a figure"; }
step_self_bad() { return 3; }
step_self_slow() { sleep 20; }
# Whether there is such a process, which has not ended.
runs() { grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$1/status" 2>/dev/null; }
# Catches TERM, and goes on.
step_self_hangs() { bash -c 'trap : TERM; echo $$ >"$0"; while :; do sleep 0.1; done' "$steps/hanging"; }
step_self_skipped() { skip "nothing there"; }

test_table() {
    local expected bad
    mkdir -p "$out" "$steps"
    alone self_good 10 >/dev/null
    must finish >/dev/null
    for bad in self_bad self_slow; do
        names=(self_good)
        alone "$bad" 1 >/dev/null
        finish >/dev/null && must false
    done
    names=(self_good)
    alone self_hangs 1 >/dev/null
    must [ "$(cut -f 2 "$steps/self_hangs.row")" = "time out" ]
    # The device is free for the next step.
    local tries=0
    while [ "$tries" -lt 50 ] && runs "$(cat "$steps/hanging")"; do
        tries=$((tries + 1))
        sleep 0.1
    done
    runs "$(cat "$steps/hanging")" && must false
    names=(self_good)
    alone self_skipped 10 >/dev/null
    must finish >/dev/null
    names=(self_good)
    together self_bad 10 self_slow 1 self_skipped 10 >/dev/null
    expected='self_good|ok|a figure self_bad|FAILED| self_slow|time out| self_skipped|skipped|nothing there '
    must [ "$(awk -F '\t' -v ORS=' ' '{ print $1 "|" $2 "|" $4 }' "$work/rows")" = "$expected" ]
    finish >/dev/null && must false
    must grep -q '^1 FAILED, 1 ok, 1 skipped, 1 time out$' "$out/table.txt"
    seconds_for_all=0 names=()
    alone self_good 10
    must grep -q '^self_good  *no time' "$out/table.txt"
    finish >/dev/null && must false
    return 0
}

# Stands for a program of that machine: $1 is its path, the rest its lines.
write_fake() {
    local path=$1
    shift
    printf '%s\n' '#!/usr/bin/env bash' "$@" >"$path"
    chmod +x "$path"
}

# gpipe-train's files as far as figures read them: 36 steps and a timeline.
write_fake_program() {
    # shellcheck disable=SC2016 # for that program
    write_fake "$1" '[ "$1" != --plan ] || { echo "{\"device\":\"cuda\"}"; exit; }' \
        '[ "$1" != --version ] || { echo "MPI: ${FAKE_MPI:-none}"; exit; }' 'echo "$@" >>"${FAKE_NOTES:-/dev/null}"' \
        'while [ $# -gt 0 ]; do case $1 in -o) run=$2 ;; --trace) trace=$2 ;; esac; shift; done' 'mkdir -p "$run"; echo "${FAKE_MODEL:-model}" >"$run/model.safetensors"' \
        "for step in {1..36}; do echo '{\"event\": \"step\", \"samples\": 100, \"seconds\": 0.5}'; done >\"\$run/metrics.jsonl\"" \
        'echo "done: 2 steps in 1.0 s"' "[ -z \"\${trace:-}\" ] || python3 -B '$here/scripts/gpu-figures.py' made-up-trace >\"\$trace\""
}

# A machine with programs that only say what the real ones would. cmake "builds" the tests.
write_fake_machine() {
    local fake=$1
    mkdir -p "$fake/torch"
    # shellcheck disable=SC2016 # for that program
    write_fake "$fake/nvidia-smi" 'case $1 in *compute_cap*) echo 9.0 ;; *name*) echo NVIDIA H200 ;; *) echo 580.1 ;; esac'
    # shellcheck disable=SC2016 # for that program
    write_fake "$fake/nvcc" 'while [ $# -gt 0 ]; do [ "$1" != -o ] || out=$2; shift; done' '[ -n "${out:-}" ] || exit 0' \
        'printf "%s\n" "#!/bin/sh" "echo \"$FAKE_SAYS\"; exit $FAKE_STATUS" >"$out"; chmod +x "$out"'
    # shellcheck disable=SC2016 # for that program
    write_fake "$fake/cmake" "mkdir -p '$build/tests'; cp '$fake'/build/* '$build/tests/'; mv '$build/tests/gpipe-train' '$build/'" \
        'echo "$@" >>"$FAKE_NOTES"; [ "$1" != --build ] || exit "${FAKE_BUILD:-0}"'
    write_fake "$fake/ncu" "printf '%s\\n' '\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\",\"dram__bytes.sum\"' '\"0\",\"gp_kernel_sgd(a)\",\"5\",\"9\"'"
    # shellcheck disable=SC2016 # for that program
    write_fake "$fake/mpirun" 'echo "$@" >>"$FAKE_NOTES"' 'while [ "${1##*/}" != gpipe-train ]; do shift; done' \
        '[ -z "${FAKE_OTHER:-}" ] || export FAKE_MODEL=other' 'exec "$@"'
    # shellcheck disable=SC2016 # for that program
    write_fake "$fake/nsys" 'kind=$1; for word; do case $word in --output=*) out=${word#*=} ;; esac; done' \
        'if [ "$kind" = export ]; then echo "$kind" >"$out"; else echo "$kind" >"$out.nsys-rep"; fi' 'echo "$@" >>"$FAKE_NOTES"'
    # Says which files it was given, if it is not asked for JSON; A takes 10 ms a step, B 12 ms.
    # shellcheck disable=SC2016 # for that program
    write_fake "$fake/compare" 'for word; do [ -e "$word" ] && echo "compared ${word##*/}"; [ "$word" != --json ] || json=1; done >said' \
        'if [ -z "${json:-}" ]; then cat said; else python3 -B "$FAKE_FIGURES" made-up-comparison; fi; rm said'
    echo 'raise ImportError("none here")' >"$fake/torch/__init__.py"
    mkdir -p "$fake/build"
    write_fake_program "$fake/build/gpipe-train"
    write_fake "$fake/build/test_gpu_device" "echo '[  PASSED  ] 9 test(s).'"
    write_fake "$fake/build/test_gpu_ops" "echo 'skipped: the machine has no GPU'; exit 77"
    write_fake "$fake/build/count_work" "echo 'samples 100'; echo 'conv_forward f32 1e12 1e9'"
    write_fake "$fake/build/time_ops" "echo 'samples 64'; echo 'copy 4e12'; echo 'forward a relu_forward f32 1e6 3e9 0.001'"
}

# In a process of its own, as everything that follows it; $1: what the preflight's program says, $2: its exit status.
run_fake() {
    local fake=$work/fake
    FAKE_SAYS=$1 FAKE_STATUS=$2 FAKE_NOTES=$work/nsys-notes FAKE_FIGURES=$here/scripts/gpu-figures.py \
        GPU_CHECK_COMPARE=$fake/compare PATH=$fake:$PATH PYTHONPATH=$fake "$self" "${@:3}" >"$work/fake.log" 2>&1
}

# How many calls of made-up programs look like that.
notes() { [ "$(grep -c -- "$2" "$work/nsys-notes")" = "$1" ] || { cat "$work/nsys-notes" && false; }; }
row_is() { grep -qE "^$1 +$2 +[0-9]+ +$3" "$out/table.txt" || { cat "$out/table.txt" && false; }; }

# Without a driver nothing is built. With one every step of a part runs, and its figure is made of what its program says.
test_steps() {
    write_fake_machine "$work/fake"
    run_fake 'no driver: the machine has none for its GPU' 1 && must false
    must row_is preflight FAILED 'no driver: the machine has none for its GPU$'
    must [ "$(wc -l <"$work/rows")" = 1 ]
    must [ ! -e "$build/gpipe-train" ]
    must run_fake '1 x NVIDIA H200' 0 --parts figures
    must row_is preflight ok '1 x NVIDIA H200$'
    must row_is build ok 'sm_90, '
    must row_is resnet50_f32 ok '200 images/s \(without overlap: 200\), 10.0 GFLOP'
    must row_is enqueue ok 'median 25 µs'
    must row_is ops_tf32 ok 'a copy moves 4000 GB/s, own kernels 3000 GB/s \(75 %\)'
    must row_is micro_batches ok '200 images/s in one micro-batch; four of its size 200 \(1.00 times\)'
    must row_is pytorch skipped 'PyTorch cannot be imported: none here$'
    must row_is ncu ok '1 own kernels in kernels.txt$'
    must grep -q '^forward  relu_forward  *f32  *1 ' "$out/kernels.txt"
    must [ "$(find "$out" -type f | wc -l)" -le 8 ]
    must run_fake '1 x NVIDIA H200' 0 --parts lockstep
    must row_is lockstep_2 ok '4 micro-batches: 10.00 ms a step in lockstep, 12.00 without \(1.20 times\), copies exposed 1.50 and 4.00 ms; 16 micro'
    must row_is lockstep_4 ok '4 micro-batches: 10.00 ms'
    must row_is nsys ok '4 micro-batches: 10.00 ms'
    must [ "$(grep -c '^compared lockstep_[24]\.\(4\|16\)\.\(true\|false\)\.json$' "$out/lockstep.txt")" = 8 ]
    must [ "$(grep -c '^compared nsys\.4\.\(true\|false\)\.sqlite$' "$out/lockstep.txt")" = 2 ]
    local on
    for on in true false; do
        must notes 1 "^profile .*--capture-range=cudaProfilerApi .*--capture-steps 10:13 .*pipeline.lockstep=$on "
        must notes 2 "^-q .*--trace .*pipeline.micro_batches=.* pipeline.devices=\[cuda:0,cuda:0\] --set pipeline.lockstep=$on "
        must notes 3 "^-q .*--trace .*pipeline.devices=\[cuda:0,cuda:0,cuda:0,cuda:0\] --set pipeline.lockstep=$on "
    done
    must [ -s "$out/profile.nsys-rep" ]
    must run_fake '1 x NVIDIA H200' 0 --parts processes
    must row_is two_processes skipped 'gpipe-train is built without MPI$'
    FAKE_MPI='Open MPI 4' must run_fake '1 x NVIDIA H200' 0 --parts processes
    must row_is two_processes ok '3 runs of 1 and 2 processes, 1 model$'
    must notes 2 '^--bind-to none --oversubscribe -np 2 .*/gpipe-train -q .*rank: 1'
    FAKE_MPI='Open MPI 4' FAKE_OTHER=1 run_fake '1 x NVIDIA H200' 0 --parts processes && must false
    must row_is two_processes FAILED '3 runs of 1 and 2 processes, 2 model$'
    must [ "$(find "$out" -type f | wc -l)" -le 8 ]
    run_fake '1 x NVIDIA H200' 0 --parts tests && must false
    must row_is gpu_device ok '9 test\(s\) passed$'
    must row_is gpu_ops FAILED 'the machine has no GPU$'
    must row_is gpu_wide skipped 'test_gpu_wide is not built$'
    must [ -z "$(sed -n '/^resnet50/p' "$work/rows")" ]
    rm -f "$work/nsys-notes"
    must run_fake '1 x NVIDIA H200' 0 --parts smoke
    must row_is gpu_device ok '9 test'
    must row_is two_steps ok '2 steps in 1.0 s$'
    must [ "$(wc -l <"$work/rows")" = 4 ]
    must notes 1 '^--build .* --target gpipe-train test_gpu_device -- -k'
    must notes 1 '-DGP_MPI=OFF'
    # A test that does not link costs its own step.
    rm "$work/fake/build/test_gpu_device"
    rm -r "$build"
    FAKE_BUILD=1 run_fake '1 x NVIDIA H200' 0 --parts smoke && must false
    must row_is build FAILED 'sm_90, '
    must row_is gpu_device skipped 'test_gpu_device is not built$'
    must row_is two_steps ok '2 steps in 1.0 s$'
    # Without the program there is nothing to run.
    mv "$work/fake/build/gpipe-train" "$work/fake/kept"
    rm -r "$build"
    FAKE_BUILD=1 run_fake '1 x NVIDIA H200' 0 --parts smoke && must false
    must [ "$(wc -l <"$work/rows")" = 2 ]
    mv "$work/fake/kept" "$work/fake/build/gpipe-train"
    run_fake '1 x NVIDIA H200' 0 --parts tests,other && must false
    must grep -q '^gpu-check: --parts takes some of' "$work/fake.log"
    rm -r "$build"
}

# A machine that goes away: what ran until then is in the table.
test_interrupted() {
    write_fake "$work/fake/build/time_ops" 'exec sleep 61'
    # Killed with all that it has started: a process group of its own.
    set -m
    run_fake '1 x NVIDIA H200' 0 --parts figures &
    local running=$! tries=0
    set +m
    until grep -q '^==== enqueue' "$out/log.txt" 2>/dev/null || [ "$tries" -gt 600 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    kill -KILL -- "-$running"
    pkill -KILL -f "^sleep 61$" # in the group of its step's timeout
    wait "$running" 2>/dev/null && must false
    must row_is resnet50_f32 ok '200 images/s'
    must grep -q '==== enqueue' "$out/log.txt"
    rm -r "$build"
}

test_wrapper() {
    local on_gpu=$here/scripts/on-gpu.sh
    export GPIPE_PROGRAM=echo
    must [ "$("$on_gpu" -q c.yaml)" = "--set pipeline.devices=[cuda:0, cuda:0] -q c.yaml" ]
    must [ "$("$on_gpu" --set 'pipeline.devices=[cpu]' cpu.yaml)" = "--set pipeline.devices=[cuda:0] cpu.yaml" ]
    must [ "$("$on_gpu" --set 'pipeline={devices: [cpu, cpu]}' c)" = "--set pipeline={devices: [cuda:0, cuda:0]} c" ]
}

# Packs, and configures with nothing but the pack.
test_pack() {
    must make_pack "$work/packed" >"$work/packed.log"
    unpack "$work/packed"
    local file
    if [ -d /usr/local/cuda/include/nvtx3 ]; then must [ -s "$pack/cuda/nvtx3/nvToolsExt.h" ]; fi
    for file in include/{yaml,jansson,jansson_config,zlib,zconf,xxhash,cmocka}.h lib/lib{yaml,jansson,z,xxhash,cmocka}.so; do
        must [ -s "$pack/$file" ]
    done
    export C_INCLUDE_PATH=$pack/include PKG_CONFIG_LIBDIR=$pack/lib/pkgconfig
    local options=(-DGP_CUDA=OFF "-DCMAKE_PREFIX_PATH=$pack" -DBUILD_TESTING=ON)
    if [ -d "$pack/onednn/lib" ]; then options+=("-DGP_ONEDNN_DIR=$pack/onednn"); fi
    cmake -S "$here" -B "$build" -G Ninja "${options[@]}" >"$work/configure.log" 2>&1 || { cat "$work/configure.log" && must false; }
    must grep -q "^CMOCKA_LIBRARY:FILEPATH=$pack/" "$build/CMakeCache.txt"
    must grep -q "^pkgcfg_lib_YAML_yaml:FILEPATH=$pack/" "$build/CMakeCache.txt"
    must grep -q "^ZLIB_LIBRARY_RELEASE:FILEPATH=$pack/" "$build/CMakeCache.txt"
    cat "$work/packed.log"
}

self_test() {
    work=$(mktemp -d) || return 1
    # shellcheck disable=SC2064 # the folder as it is now
    trap "rm -rf '$work'" EXIT
    out=$work/out build=$work/build pack=$work/pack steps=$work/steps
    export GPU_CHECK_WORK=$work OUT=$out GPU_NAME=
    must figures --self-test
    must test_table
    must test_steps
    must test_interrupted
    must test_wrapper
    must test_pack
    echo "gpu-check: steps, preflight, table, interruption, wrapper and pack work"
}

case "${1-}" in
--pack) make_pack "${2:?"gpu-check: --pack needs a folder"}" ;;
--step)
    name=$2
    parts=${GPU_CHECK_PARTS:-$parts}
    # This process stays until its program has ended: else timeout would not kill a program that catches TERM and hangs.
    trap : TERM
    "step_$name"
    ;;
--self-test) self_test ;;
--parts)
    parts=${2:-}
    part="(${all_parts//,/|})"
    if [[ ! $parts =~ ^$part(,$part)*$ ]]; then
        echo "gpu-check: --parts takes some of $all_parts, not \"$parts\"" >&2
        exit 2
    fi
    run_all "${3:-}"
    ;;
-*) sed -n '2,16s/^# \{0,1\}//p' "$self" && exit 2 ;;
*) run_all "${1:-}" ;;
esac
