// What the page that is shown offers to the bar at the top: the command that says the same, a title.
class Actions {
  command = $state('');
  title = $state('');
  carried = $state.raw<Record<string, string>>({}); // the run that the places Plan and Look inside share
}
export const actions = new Actions();
