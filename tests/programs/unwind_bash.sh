#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# A load for tests of stacks: functions that call each other deeply, expansions, expressions,
# subshells, pipes, traps and short waits. Works until it is killed.

fibonacci() {
  local n=$1 a b
  if ((n < 2)); then
    REPLY=$n
    return
  fi
  fibonacci $((n - 1))
  a=$REPLY
  fibonacci $((n - 2))
  b=$REPLY
  REPLY=$((a + b))
}

words() {
  local text=$1 word
  local -A seen=()
  for word in $text; do
    [[ $word =~ ^([a-z]+)([0-9]*)$ ]] && seen[${BASH_REMATCH[1]^^}]=${#BASH_REMATCH[2]}
    case $word in
      *a*b*) seen[x]=${word//[aeiou]/_} ;;
      ?[0-9]*) seen[y]=${word%%[0-9]*} ;;
    esac
  done
  printf -v REPLY '%s,' "${!seen[@]}"
}

sorted() {
  local -a list=()
  local i j swap
  for ((i = 0; i < 40; i++)); do list[i]=$((i * 7919 % 101)); done
  for ((i = 0; i < 40; i++)); do
    for ((j = i + 1; j < 40; j++)); do
      if ((list[j] < list[i])); then swap=${list[i]} list[i]=${list[j]} list[j]=$swap; fi
    done
  done
  REPLY=${list[*]}
}

pipes() {
  local line total=0
  while IFS=, read -r _ line; do
    ((total += line))
  done < <(for ((i = 0; i < 50; i++)); do echo "x,$i"; done)
  REPLY=$total$(echo "${1:-}" | while read -r line; do echo "$line!"; done)
}

trap 'trapped=$((trapped + 1))' USR1
while :; do
  fibonacci 9
  words 'alpha12 beta7 gamma bab a1b2 x9 delta44 epsilon'
  sorted
  pipes "$REPLY"
  kill -USR1 $$
  read -r -t 0.002 _ < <(:) || :
  echo turn
done
