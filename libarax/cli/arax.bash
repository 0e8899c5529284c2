# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Completion of arax(1) for bash.

_arax()
{
	local cur=${COMP_WORDS[COMP_CWORD]} words='' i root dir groups=()

	if [ "$COMP_CWORD" -eq 1 ]; then
		words='devices info kernels models run ps kill tenant trace bench sim --help --version'
	else
		case ${COMP_WORDS[1]} in
		devices|info|kernels|ps)
			words='--json --help' ;;
		models)
			if [[ ${COMP_WORDS[COMP_CWORD-1]} == --@(file|plot) ]]; then
				mapfile -t COMPREPLY < <(compgen -f -- "$cur")
				return
			fi
			words='--links --json --plot --file --help' ;;
		bench)
			words='null depth sleep handover access stream starpu simscale elastic grcuda-sim
				cholesky-sim grcuda overhead cholesky graph fair sharing rodinia
				opencl cuda outofcore floors list
				--link --json --seconds --rounds --help' ;;
		trace)
			mapfile -t COMPREPLY < <(compgen -W '--perfetto --dot --tasks --json --help' -- "$cur"; compgen -f -- "$cur")
			return ;;
		sim)
			case ${COMP_WORDS[COMP_CWORD-1]} in
			--policy|--seed) return ;;
			--plot) mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
			esac
			if [[ $cur != -* ]]; then
				mapfile -t COMPREPLY < <(compgen -f -- "$cur")
				return
			fi
			words='--policy --seed --json --plot --on-lane --ahead --no-bound --help' ;;
		kill)
			words="--json $(arax ps --json 2>/dev/null | sed -n 's/.*"context": \([0-9]*\).*/\1/p')" ;;
		tenant)
			if [ "$COMP_CWORD" -eq 2 ]; then
				words='show set unset'
			elif [ "${COMP_WORDS[COMP_CWORD-1]}" = --tenants ]; then
				mapfile -t COMPREPLY < <(compgen -d -- "$cur")
				return
			elif [ "${COMP_WORDS[2]}" = show ]; then
				words='--json --tenants'
			else
				words='memory.max tasks.max contexts.max device_memory.max
					device_time.weight device_time.max'
				[ "${COMP_WORDS[2]}" = set ] && words=${words//max/max=} &&
					words=${words//weight/weight=}
				words+=' --save --json --tenants'
			fi
			# Cgroups, too: behind the verb, or behind its options.
			if [ "$COMP_CWORD" -eq 3 ] || [[ ${COMP_WORDS[COMP_CWORD-1]} == --save ]]; then
				root=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/self/mounts)
				# Users name some of them: compgen -W would expand what is in a name.
				while IFS= read -r dir; do
					[[ $dir == "$root"/* && $dir != *[[:cntrl:]]* ]] || continue
					printf -v dir %q "${dir#"$root"}"
					groups+=("$dir")
				done < <(compgen -d -- "$root/${cur#/}")
			fi ;;
		run)
			for ((i = 2; i < COMP_CWORD; i++)); do
				case ${COMP_WORDS[i]} in
				--config|--kernels|--kind|--trace) i=$((i + 1)) ;;
				-*) ;;
				*) break ;;
				esac
			done
			if [ "$i" -gt "$COMP_CWORD" ]; then	# the word is an option's value
				case ${COMP_WORDS[COMP_CWORD-1]} in
				--kind) mapfile -t COMPREPLY < <(compgen -W 'cpu opencl cuda hip xrt' -- "$cur") ;;
				--kernels) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
				*) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
				esac
			elif [ "$i" -lt "$COMP_CWORD" ]; then
				mapfile -t COMPREPLY < <(compgen -f -- "$cur")
			elif [[ $cur == -* ]]; then
				mapfile -t COMPREPLY < <(compgen -W '--private --verbose --config --kernels --kind --trace --help --' -- "$cur")
			else
				mapfile -t COMPREPLY < <(compgen -c -- "$cur")
			fi
			return ;;
		esac
	fi
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
	COMPREPLY+=("${groups[@]}")
	[[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
	return 0
}

complete -F _arax arax
